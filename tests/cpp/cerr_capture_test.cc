// SPDX-License-Identifier: Apache-2.0
#include "support/cerr_capture.h"

#include <gtest/gtest.h>

#include <iostream>
#include <string>
#include <thread>

namespace tvm_ios {
namespace {

TEST(CerrCapture, HoldsWhatTheThreadWrites) {
  BeginCerrCapture();
  std::cerr << "a warning of " << 3 << std::endl;
  std::cerr.put('x');
  EXPECT_EQ(EndCerrCapture(), "a warning of 3\nx");
}

TEST(CerrCapture, HandsOnWhatOthersWrite) {
  testing::internal::CaptureStderr();
  BeginCerrCapture();
  std::thread([] { std::cerr << "another thread" << std::endl; }).join();
  EXPECT_EQ(EndCerrCapture(), "");
  std::cerr << "afterwards" << std::endl;
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "another thread\nafterwards\n");
}

TEST(CerrCapture, IsNested) {
  BeginCerrCapture();
  std::cerr << "outer";
  BeginCerrCapture();
  std::cerr << "inner";
  EXPECT_EQ(EndCerrCapture(), "inner");
  std::cerr << "!";
  EXPECT_EQ(EndCerrCapture(), "outer!");
}

TEST(CerrCapture, EndsWithoutABeginning) { EXPECT_EQ(EndCerrCapture(), ""); }

TEST(CerrCapture, IsEachThreadsOwn) {
  std::string other;
  BeginCerrCapture();
  std::thread([&other] {
    BeginCerrCapture();
    std::cerr << "theirs";
    other = EndCerrCapture();
  }).join();
  std::cerr << "mine";
  EXPECT_EQ(EndCerrCapture(), "mine");
  EXPECT_EQ(other, "theirs");
}

}  // namespace
}  // namespace tvm_ios
