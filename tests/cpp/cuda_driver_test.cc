// SPDX-License-Identifier: Apache-2.0
#include "cuda_support.h"
#include "runtime/cuda/describe.h"
#include "runtime/cuda/driver.h"
#include "support/error.h"

namespace tvm_ios {
namespace cuda {
namespace {

class CudaDriverTest : public CudaTest {};

/*! \brief What is said when this library is loaded as the driver. */
std::string Refusal(const std::string& library = "libcuda.so.1") {
  try {
    const Driver driver(library);
    return "";
  } catch (const DeviceError& error) {
    EXPECT_STREQ(error.kind(), "tvm_ios.DeviceError");
    return error.what();
  }
}

TEST_F(CudaDriverTest, ADriverIsLoaded) { EXPECT_EQ(Refusal(), ""); }

TEST_F(CudaDriverTest, WithoutADriver) {
  const std::string refusal = Refusal("libno-cuda-here.so.1");
  EXPECT_NE(refusal.find("install NVIDIA's driver"), std::string::npos) << refusal;
}

TEST_F(CudaDriverTest, ALibraryThatIsNoDriver) {
  const std::string refusal = Refusal("libc.so.6");
  EXPECT_NE(refusal.find("has no cuGetErrorName"), std::string::npos) << refusal;
}

TEST_F(CudaDriverTest, WithoutADevice) {
  const Variable none("TVM_IOS_FAKE_DRIVER_DEVICES", "0");
  EXPECT_NE(Refusal().find("there is no CUDA device: "), std::string::npos);
}

TEST_F(CudaDriverTest, ADriverThatIsTooOld) {
  const Variable old("TVM_IOS_FAKE_DRIVER_VERSION", "11080");
  EXPECT_EQ(Refusal(), "the CUDA driver is for CUDA 11.8: install one for CUDA 13.0 or newer");
}

TEST_F(CudaDriverTest, ADriverThatDoesNotStart) {
  const Variable fault("TVM_IOS_FAKE_DRIVER_FAIL", "cuInit:1:803");
  EXPECT_NE(Refusal().find("cuInit failed with CUDA_ERROR"), std::string::npos);
}

TEST_F(CudaDriverTest, ADeviceIsDescribed) {
  EXPECT_EQ(Describe(1),
            "name: Stand-in 1\ncapability: 9.0\nmultiprocessors: 132\nl2_bytes: 52428800\n"
            "threads: 2048\nregisters: 65536\nshared_bytes: 233472\nblock_shared_bytes: 232448\n"
            "reserved_bytes: 1024\n"
            "memory_bytes: 17179869184\ndriver: 13.0\n");
}

TEST_F(CudaDriverTest, ADeviceThatIsNotThere) {
  for (int64_t device_id : {int64_t{-1}, int64_t{2}, int64_t{1} << 32}) {
    try {
      Describe(device_id);
      ADD_FAILURE() << device_id;
    } catch (const DeviceError& error) {
      EXPECT_EQ(error.what(), "there is no CUDA device " + std::to_string(device_id) +
                                  ": choose one from 0 to 1");
    }
  }
}

}  // namespace
}  // namespace cuda
}  // namespace tvm_ios
