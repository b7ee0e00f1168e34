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

  int64_t left() const { return static_cast<int64_t>(numbers_.size() - next_); }

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

  /*! \brief Read how many numbers follow. */
  int64_t Count(const char* what) {
    const int64_t count = Next();
    TVM_IOS_REQUIRE(0 <= count && count <= left(), ValueError)
        << "the stage program is cut off: " << count << " " << what;
    return count;
  }

 private:
  ::tvm::ffi::ShapeView numbers_;
  size_t next_{0};
};

/*! \brief How many of each there are that a call may refer to. */
struct Counts {
  int64_t streams;
  int64_t kernels;
  int64_t tensors;
};

StageCall ReadCall(Reader& reader, const Counts& counts, int64_t num_earlier) {
  StageCall call{};
  call.kernel = reader.Index("kernel", counts.kernels);
  call.stream = reader.Index("stream", counts.streams);
  const int64_t num_waits = reader.Count("waits");
  for (int64_t i = 0; i < num_waits; ++i) {
    call.waits.push_back(reader.Index("earlier call", num_earlier));
  }
  const int64_t size = reader.Count("tensors");
  TVM_IOS_REQUIRE(size >= 1, ValueError)
      << "the stage program calls kernel " << call.kernel << " with " << size << " tensors";
  for (int64_t i = 0; i < size; ++i) {
    call.tensors.push_back(reader.Index("tensor", counts.tensors));
  }
  return call;
}

}  // namespace

StageProgram ReadProgram(::tvm::ffi::ShapeView numbers, int64_t num_kernels, int64_t num_tensors) {
  Reader reader(numbers);
  StageProgram program{reader.Next(), {}, {}};
  TVM_IOS_REQUIRE(program.num_streams >= 1, ValueError) << "a stage needs at least one stream";
  const int64_t num_parts = reader.Count("parts");
  TVM_IOS_REQUIRE(num_parts == 0 || num_tensors > 0, ValueError)
      << "the stage program has parts of a workspace that is missing";
  for (int64_t i = 0; i < num_parts; ++i) {
    const int64_t offset = reader.Next();
    program.parts.push_back({offset, KernelTable::ReadSpec(&reader)});
  }
  const Counts counts{program.num_streams, num_kernels, num_tensors + num_parts};
  while (reader.left() > 0) {
    const auto num_earlier = static_cast<int64_t>(program.calls.size());
    program.calls.push_back(ReadCall(reader, counts, num_earlier));
  }
  const auto num_calls = static_cast<int64_t>(program.calls.size());
  TVM_IOS_REQUIRE(program.num_streams <= num_calls, ValueError)
      << "the stage program has fewer calls than streams";
  return program;
}

}  // namespace cuda
}  // namespace tvm_ios
