// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/describe.h"

#include <array>
#include <sstream>

#include "runtime/cuda/driver.h"
#include "runtime/cuda/scopes.h"

namespace tvm_ios {
namespace cuda {

std::string Describe(int64_t device_id) {
  const Driver& driver = Driver::Get();
  const Device device = FindDevice(device_id);
  std::array<char, 256> name{};
  driver.cuDeviceGetName(name.data(), static_cast<int>(name.size()), device);
  size_t memory = 0;
  driver.cuDeviceTotalMem(&memory, device);
  const auto attribute = [&](DeviceAttribute which) {
    int value = 0;
    driver.cuDeviceGetAttribute(&value, which, device);
    return value;
  };
  std::ostringstream text;
  text << "name: " << name.data() << "\ncapability: " << attribute(kCapabilityMajor) << "."
       << attribute(kCapabilityMinor) << "\nmultiprocessors: " << attribute(kMultiprocessors)
       << "\nl2_bytes: " << attribute(kL2CacheBytes)
       << "\nthreads: " << attribute(kMultiprocessorThreads)
       << "\nregisters: " << attribute(kMultiprocessorRegisters)
       << "\nshared_bytes: " << attribute(kMultiprocessorSharedBytes)
       << "\nblock_shared_bytes: " << attribute(kRequestedSharedBytes)
       << "\nreserved_bytes: " << attribute(kReservedSharedBytes) << "\nmemory_bytes: " << memory
       << "\ndriver: " << VersionText(driver.version()) << "\n";
  return text.str();
}

}  // namespace cuda
}  // namespace tvm_ios
