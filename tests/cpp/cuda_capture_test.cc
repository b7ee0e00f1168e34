// SPDX-License-Identifier: Apache-2.0
#include <tvm/ffi/error.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>

#include "cuda_support.h"
#include "runtime/cuda/handles.h"

namespace tvm_ios {
namespace cuda {
namespace {

/*! \brief A stream that is captured as TVM's RewriteCUDAGraph does it. */
class Captured {
 public:
  explicit Captured(int mode = fake_driver_global)
      : context_(0), stream_(MakeStream()), current_(0) {
    current_.Set(stream_.get());
    Driver::Get().cuStreamBeginCapture(stream_.get(), mode);
  }

  GraphHandle End() {
    Graph graph = nullptr;
    Driver::Get().cuStreamEndCapture(stream_.get(), &graph);
    return GraphHandle(graph);
  }

  static constexpr int fake_driver_global = 0;

 private:
  const ContextScope context_;
  const StreamHandle stream_;
  StreamScope current_;
};

/*! \brief Lets a number of threads go on together. */
class Barrier {
 public:
  explicit Barrier(int size) : size_(size) {}
  void Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    const int round = round_;
    if (++present_ == size_) {
      present_ = 0;
      ++round_;
      all_.notify_all();
    } else {
      all_.wait(lock, [&] { return round_ != round; });
    }
  }

 private:
  const int size_;
  int present_{0};
  int round_{0};
  std::mutex mutex_;
  std::condition_variable all_;
};

class CudaCaptureTest : public CudaTest {};

TEST_F(CudaCaptureTest, AGraphHoldsTheWholeStage) {
  const auto stage = TwoChains();
  stage->Run();
  for (int capture = 0; capture < 2; ++capture) {
    TvmIosStandInClear();
    Captured captured;
    stage->Run();
    stage->Run();
    captured.End();
    EXPECT_EQ(Journal(), (Lines{"create s1", "begin s1",
                                // Stages of one capture use the same streams and events.
                                "record e1 s1", "wait s2 e1", "launch a s1", "launch b s2",
                                "launch c s1", "launch d s2", "record e2 s2", "wait s1 e2",  //
                                "record e1 s1", "wait s2 e1", "launch a s1", "launch b s2",
                                "launch c s1", "launch d s2", "record e2 s2", "wait s1 e2",  //
                                "end s1 g1", "destroy g1"}));
  }
  stage->Run();  // the streams are free again
}

TEST_F(CudaCaptureTest, AnErrorOfAKernelLeavesACaptureThatCanEnd) {
  const auto throwing = ffi::Function::FromPacked(
      [](ffi::PackedArgs, ffi::Any*) { TVM_FFI_THROW(ValueError) << "not now"; });
  const Arguments stage(Program(2, {{0, 1}, {1, 0}}), {Kernel("a"), throwing});
  EXPECT_THROW(stage.Run(), ffi::Error);
  Captured captured;
  EXPECT_THROW(stage.Run(), ffi::Error);
  EXPECT_NE(captured.End(), nullptr);
}

TEST_F(CudaCaptureTest, AStageThatHasNotRunCannotBeCaptured) {
  std::thread([] {
    const auto stage = Wide(WidestYet() + 1);
    Captured captured;
    try {
      stage->Run();
      ADD_FAILURE() << "it was captured";
    } catch (const ffi::Error& error) {
      EXPECT_EQ(error.kind(), "InternalError");
      EXPECT_NE(std::string(error.what()).find("has not run on this thread"), std::string::npos);
    }
    EXPECT_NE(captured.End(), nullptr);
  }).join();
  EXPECT_EQ(Count(Journal(), "launch"), 0);
}

TEST_F(CudaCaptureTest, AThreadMayMakeStreamsWhileAnotherOneCaptures) {
  Captured captured;
  int made = 0;
  std::thread([&] {
    const auto stage = Wide(WidestYet() + 1);
    stage->Run();
    made = Count(Journal(), "create s");
  }).join();
  EXPECT_EQ(made, 1);
  EXPECT_NE(captured.End(), nullptr);
}

/*! \brief The streams that a thread launched on, by the thread's number in the journal. */
std::map<std::string, std::set<std::string>> StreamsOfThreads() {
  std::map<std::string, std::set<std::string>> streams;
  std::istringstream journal(RawJournal());
  for (std::string line; std::getline(journal, line);) {
    std::istringstream words(line);
    std::string thread, what, kernel, stream;
    words >> thread >> what >> kernel >> stream;
    if (what == "launch" && stream != "s0") streams[thread].insert(stream);
  }
  return streams;
}

TEST_F(CudaCaptureTest, ThreadsCaptureAtTheSameTime) {
  constexpr int kThreads = 4;
  Barrier barrier(kThreads);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&] {
      const auto stage = TwoChains();
      stage->Run();
      for (int round = 0; round < 5; ++round) {
        barrier.Wait();  // no one runs on the default stream while others capture
        Captured captured(kCaptureThreadLocal);
        stage->Run();
        barrier.Wait();  // all captures are open
        stage->Run();
        EXPECT_NE(captured.End(), nullptr);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<std::string> all;
  size_t sum = 0;
  for (const auto& [thread, streams] : StreamsOfThreads()) {
    all.insert(streams.begin(), streams.end());
    sum += streams.size();
  }
  EXPECT_EQ(all.size(), sum);  // no stream was seen by two threads
}

TEST_F(CudaCaptureTest, ThreadsLeaveTheirStreamsToOthers) {
  const auto run = [] { TwoChains()->Run(); };
  std::thread(run).join();
  TvmIosStandInClear();
  for (int thread = 0; thread < 3; ++thread) std::thread(run).join();
  EXPECT_EQ(Count(Journal(), "create"), 0);
  EXPECT_EQ(Count(Journal(), "launch"), 12);
}

TEST_F(CudaCaptureTest, ThreadsAndDevicesTogether) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([thread] {
      for (int run = 0; run < 50; ++run) TwoChains((thread + run) % 2)->Run();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Count(Journal(), "launch"), 4 * 50 * 4);
}

}  // namespace
}  // namespace cuda
}  // namespace tvm_ios
