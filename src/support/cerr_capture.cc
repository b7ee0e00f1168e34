// SPDX-License-Identifier: Apache-2.0
#include "support/cerr_capture.h"

#include <iostream>
#include <streambuf>
#include <utility>
#include <vector>

namespace tvm_ios {
namespace {

thread_local std::vector<std::string> captures;  // the innermost one is the last

/*! \brief A buffer of std::cerr that hands on what threads without a capture write. */
class Router : public std::streambuf {
 public:
  Router() : original_(std::cerr.rdbuf(this)) {}
  ~Router() override { std::cerr.rdbuf(original_); }
  Router(const Router&) = delete;
  Router& operator=(const Router&) = delete;

 protected:
  int_type overflow(int_type character) override {
    if (traits_type::eq_int_type(character, traits_type::eof())) return traits_type::not_eof(0);
    if (captures.empty()) return original_->sputc(traits_type::to_char_type(character));
    captures.back().push_back(traits_type::to_char_type(character));
    return character;
  }

  std::streamsize xsputn(const char* text, std::streamsize size) override {
    if (captures.empty()) return original_->sputn(text, size);
    captures.back().append(text, static_cast<size_t>(size));
    return size;
  }

  int sync() override { return captures.empty() ? original_->pubsync() : 0; }

 private:
  std::streambuf* original_;
};

}  // namespace

void BeginCerrCapture() {
  static Router router;  // until the process ends: threads may capture at any time
  captures.emplace_back();
}

std::string EndCerrCapture() {
  if (captures.empty()) return "";
  std::string text = std::move(captures.back());
  captures.pop_back();
  return text;
}

}  // namespace tvm_ios
