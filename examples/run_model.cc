// SPDX-License-Identifier: Apache-2.0
/*
 * Run a library that `tvm-ios compile` wrote, without Python: run_model MODEL.so SIZE...
 *
 *   tvm=$(python -c 'import os, tvm; print(os.path.dirname(tvm.__file__))')/lib
 *   g++ -std=c++17 -O2 run_model.cc -o run_model $(tvm-ffi-config --cxxflags --ldflags --libs) \
 *       -L$tvm -Wl,--no-as-needed -ltvm_runtime -Wl,-rpath,$tvm,-rpath,$(tvm-ffi-config --libdir)
 *   ./run_model squeezenet.so 1 3 224 224
 */
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <string>
#include <vector>

namespace ffi = tvm::ffi;

int main(int argc, char** argv) try {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  std::vector<int64_t> sizes;
  for (size_t i = 1; i < arguments.size(); ++i) sizes.push_back(std::stoll(arguments[i]));

  // A library holds code and weights; a virtual machine runs it, for one thread at a time.
  const ffi::Module library = ffi::Module::LoadFromFile(arguments.at(0));
  const auto machine = (*library->GetFunction("vm_load_executable"))().cast<ffi::Module>();
  const int pooled = 2;  // an allocator that keeps its memory
  (*machine->GetFunction("vm_initialization"))(static_cast<int>(kDLCPU), 0, pooled);
  const ffi::Function run = *machine->GetFunction("main");

  const DLDevice host{kDLCPU, 0};
  const auto allocate = ffi::Function::GetGlobalRequired("runtime.TVMTensorAllocWithScope");
  const auto input =
      allocate(ffi::Shape(sizes), DLDataType{kDLFloat, 32, 1}, host, nullptr).cast<ffi::Tensor>();
  for (int64_t i = 0; i < input.numel(); ++i) {
    static_cast<float*>(input.data_ptr())[i] = static_cast<float>(i % 17) / 17.0F - 0.5F;
  }

  ffi::Any result = run(input);  // the first run also starts the threads
  const auto begin = std::chrono::steady_clock::now();
  result = run(input);
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
  const auto several = result.as<ffi::Array<ffi::Tensor>>();
  const ffi::Tensor output = several ? (*several)[0] : result.cast<ffi::Tensor>();
  std::cout << output.numel() << " numbers in " << time.count() << " ms:";
  for (int64_t i = 0; i < std::min<int64_t>(output.numel(), 5); ++i) {
    std::cout << ' ' << static_cast<const float*>(output.data_ptr())[i];
  }
  std::cout << std::endl;
} catch (const std::exception& error) {
  std::cerr << error.what() << std::endl;
  return 1;
}
