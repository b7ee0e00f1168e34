// SPDX-License-Identifier: Apache-2.0
/*!
 * \file cuda_support.h
 * \brief Stages of kernels that only launch, on the fake driver.
 */
#ifndef TVM_IOS_TESTS_CUDA_SUPPORT_H_
#define TVM_IOS_TESTS_CUDA_SUPPORT_H_

#include <gtest/gtest.h>
#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cuda/driver.h"
#include "runtime/cuda/scopes.h"
#include "runtime/cuda/stage.h"
#include "runtime/host_tensor.h"

namespace tvm_ios {
namespace cuda {

namespace ffi = ::tvm::ffi;

using Lines = std::vector<std::string>;

/*! \brief What the driver was asked, as it was written: "thread: what". */
inline std::string RawJournal() {
  std::vector<char> text(TvmIosStandInJournal(nullptr, 0));
  TvmIosStandInJournal(text.data(), text.size());
  return text.data();
}

/*!
 * \brief What the driver was asked since the last Clear, without threads.
 *
 * Streams (s), events (e), graphs (g, x) are numbered anew, in the order in which they appear.
 */
inline Lines Journal() {
  std::map<char, std::map<std::string, int>> numbers;
  Lines lines;
  std::istringstream journal(RawJournal());
  for (std::string line; std::getline(journal, line);) {
    std::istringstream words(line.substr(line.find(' ') + 1));
    std::string renamed;
    for (std::string word; words >> word;) {
      const bool handle = std::string("segx").find(word[0]) != std::string::npos &&
                          word.find_first_not_of("0123456789", 1) == std::string::npos;
      if (handle && word.size() > 1 && word != "s0") {
        auto& known = numbers[word[0]];
        const int next = static_cast<int>(known.size()) + 1;
        word = word[0] + std::to_string(known.emplace(word, next).first->second);
      }
      renamed += (renamed.empty() ? "" : " ") + word;
    }
    lines.push_back(renamed);
  }
  return lines;
}

/*! \brief How many lines begin with the words. */
inline int Count(const Lines& lines, const std::string& words) {
  int count = 0;
  for (const std::string& line : lines) count += line.rfind(words, 0) == 0 ? 1 : 0;
  return count;
}

/*! \brief A launch on the current stream, as a kernel that TVM compiled makes it. */
inline void Launch(int device_id, const std::string& name) {
  const ContextScope context(device_id);
  Handle kernel = nullptr;
  cuModuleGetFunction(&kernel, nullptr, name.c_str());
  LaunchConfig config{};
  config.stream = static_cast<Handle>(TVMFFIEnvGetStream(kDLCUDA, device_id));
  EXPECT_EQ(cuLaunchKernelEx(&config, kernel, nullptr, nullptr), kSuccess);
}

inline ffi::Function Kernel(const std::string& name) {
  return ffi::Function::FromPacked([name](ffi::PackedArgs args, ffi::Any*) {
    Launch(args[0].cast<ffi::TensorView>().device().device_id, name);
  });
}

inline ffi::Tensor DeviceTensor(int device_id = 0) {
  const std::vector<int64_t> shape{4};
  return ffi::Tensor::FromNDAlloc(HostAllocator(), ffi::ShapeView(shape.data(), shape.size()),
                                  DLDataType{kDLFloat, 32, 1}, DLDevice{kDLCUDA, device_id});
}

/*! \brief The arguments of a stage, and what they are views of. */
class Arguments {
 public:
  Arguments(const std::vector<int64_t>& program, std::vector<ffi::Function> kernels,
            std::vector<ffi::Tensor> tensors = {DeviceTensor()})
      : program_(program.begin(), program.end()),
        kernels_(std::move(kernels)),
        tensors_(std::move(tensors)) {
    views_.emplace_back(program_);
    for (const ffi::Function& kernel : kernels_) views_.emplace_back(kernel);
    for (const ffi::Tensor& tensor : tensors_) views_.emplace_back(tensor);
  }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  ffi::PackedArgs packed() const { return {views_.data(), static_cast<int32_t>(views_.size())}; }
  Stage stage() const { return Stage(packed()); }
  void Run() const { stage().Run(); }

 private:
  ffi::Shape program_;
  std::vector<ffi::Function> kernels_;
  std::vector<ffi::Tensor> tensors_;
  std::vector<ffi::AnyView> views_;
};

/*! \brief A call of a kernel with the first tensor, as a part of a program. */
inline std::vector<int64_t> Program(
    int64_t num_streams, const std::vector<std::pair<int64_t, int64_t>>& kernels_and_streams) {
  std::vector<int64_t> program{num_streams, 0};
  for (const auto& [kernel, stream] : kernels_and_streams) {
    program.insert(program.end(), {kernel, stream, 0, 1, 0});
  }
  return program;
}

/*! \brief Kernels a and c on the current stream, b and d on a second one, in the order a b c d. */
inline std::unique_ptr<Arguments> TwoChains(int device_id = 0) {
  return std::make_unique<Arguments>(
      Program(2, {{0, 0}, {1, 1}, {2, 0}, {3, 1}}),
      std::vector<ffi::Function>{Kernel("a"), Kernel("b"), Kernel("c"), Kernel("d")},
      std::vector<ffi::Tensor>{DeviceTensor(device_id)});
}

/*! \brief One kernel, a, on each of so many streams. */
inline std::unique_ptr<Arguments> Wide(int64_t num_streams, int device_id = 0) {
  std::vector<std::pair<int64_t, int64_t>> calls;
  for (int64_t stream = 0; stream < num_streams; ++stream) calls.emplace_back(0, stream);
  return std::make_unique<Arguments>(Program(num_streams, calls),
                                     std::vector<ffi::Function>{Kernel("a")},
                                     std::vector<ffi::Tensor>{DeviceTensor(device_id)});
}

/*! \brief So many streams that any more have to be made, whatever other tests have left. */
inline int64_t WidestYet(int device_id = 0) {
  int64_t num_streams = 1;
  do {
    TvmIosStandInClear();
    Wide(++num_streams, device_id)->Run();
  } while (Count(Journal(), "create s") == 0);
  TvmIosStandInClear();
  return num_streams;
}

/*! \brief A variable of the environment in a scope. */
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

/*! \brief Begins with an empty journal, ends with one that tells of no misuse, unless the test is
 * of one. */
class CudaTest : public testing::Test {
 protected:
  CudaTest() { TvmIosStandInClear(); }
  void TearDown() override { EXPECT_EQ(Count(Journal(), "misuse") > 0, misused_) << RawJournal(); }
  bool misused_{false};
};

}  // namespace cuda
}  // namespace tvm_ios
#endif  // TVM_IOS_TESTS_CUDA_SUPPORT_H_
