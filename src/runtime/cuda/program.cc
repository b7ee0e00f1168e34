// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/program.h"

#include <tvm/ffi/error.h>

#include <cstddef>

#include "runtime/arguments.h"

namespace tvm_ios {
namespace cuda {
namespace {

/*! \brief A reader of a program's numbers, one after another. */
class Reader {
 public:
  explicit Reader(::tvm::ffi::ShapeView numbers) : numbers_(numbers) {}

  size_t left() const { return numbers_.size() - next_; }

  int64_t Next() {
    TVM_IOS_REQUIRE(left() > 0, ValueError) << "the stage program is cut off";
    return numbers_[next_++];
  }

  /*! \brief Read an index below count. */
  int64_t Index(const char* what, int64_t count) {
    const int64_t index = Next();
    TVM_IOS_REQUIRE(0 <= index && index < count, ValueError)
        << "the stage program names " << what << " " << index << " of " << count;
    return index;
  }

 private:
  ::tvm::ffi::ShapeView numbers_;
  size_t next_{0};
};

StageCall ReadCall(Reader& reader, int64_t num_streams, int64_t num_kernels, int64_t num_tensors) {
  StageCall call{};
  call.kernel = reader.Index("kernel", num_kernels);
  call.stream = reader.Index("stream", num_streams);
  const int64_t size = reader.Next();
  TVM_IOS_REQUIRE(size >= 1, ValueError)
      << "the stage program calls kernel " << call.kernel << " with " << size << " tensors";
  TVM_IOS_REQUIRE(static_cast<size_t>(size) <= reader.left(), ValueError)
      << "the stage program is cut off";
  for (int64_t i = 0; i < size; ++i) {
    call.tensors.push_back(reader.Index("tensor", num_tensors));
  }
  return call;
}

}  // namespace

StageProgram ReadProgram(::tvm::ffi::ShapeView numbers, int64_t num_kernels, int64_t num_tensors) {
  Reader reader(numbers);
  StageProgram program{reader.Next(), {}};
  TVM_IOS_REQUIRE(program.num_streams >= 1, ValueError) << "a stage needs at least one stream";
  while (reader.left() > 0) {
    program.calls.push_back(ReadCall(reader, program.num_streams, num_kernels, num_tensors));
  }
  const auto num_calls = static_cast<int64_t>(program.calls.size());
  TVM_IOS_REQUIRE(program.num_streams <= num_calls, ValueError)
      << "the stage program has fewer calls than streams";
  return program;
}

}  // namespace cuda
}  // namespace tvm_ios
