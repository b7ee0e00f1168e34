// SPDX-License-Identifier: Apache-2.0
/*!
 * \file machine.h
 * \brief Streams, events and graphs as the CUDA driver knows them, without a device.
 *
 * It keeps what is needed to tell a correct program from one that is not, and it is stricter than
 * the driver: waiting for an event that was never recorded, for one, is no error there. A launch
 * takes a millisecond of a clock that each stream has.
 */
#ifndef TVM_IOS_TESTS_CUDA_MACHINE_H_
#define TVM_IOS_TESTS_CUDA_MACHINE_H_

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cuda/capture.h"
#include "cuda/journal.h"
#include "cuda/results.h"

namespace fake_driver {

using Id = size_t;  // 0 is the default stream of the current device

class Machine {
 public:
  explicit Machine(Journal& journal) : journal_(journal) {}

  // A device is that of the calling thread's current context; -1 if there is none.

  Result CreateStream(int device, unsigned flags, Id* stream);
  Result DestroyStream(int device, Id stream);
  Result Synchronize(int device, Id stream);
  /*!
   * \brief Makes the work a part of the graph that is captured, or else has it done: at once, or,
   * in an order other than that of issue, when somebody waits for it.
   */
  Result Launch(int device, Id stream, const std::string& name, const Work& work);
  /*! \brief Does all that was issued and not done yet. */
  Result Flush();
  Result Record(int device, Id event, Id stream);
  /*! \brief Makes the event a node of the graph that is captured: every launch records it. */
  Result RecordNode(int device, Id event, Id stream);
  Result Wait(int device, Id stream, Id event);

  Result CreateEvent(int device, unsigned flags, Id* event);
  Result DestroyEvent(Id event);
  Result SynchronizeEvent(Id event);
  Result Elapsed(Id begin, Id end, float* milliseconds);

  Result BeginCapture(int device, Id stream, int mode);
  Result EndCapture(int device, Id stream, Id* graph);
  Result Status(int device, Id stream, int* status);
  Result Instantiate(Id graph, Id* exec);
  Result Replay(int device, Id exec, Id stream);
  Result DestroyGraph(Id graph);
  Result DestroyExec(Id exec);

  /*! \brief Whether the thread may do what could disturb a capture; it ends the capture if not. */
  Result CheckUnsafe(const std::string& what);
  /*! \brief Sets the calling thread's capture mode; returns the one before. */
  static int ExchangeMode(int mode);

 private:
  struct Stream {
    int device;
    bool blocking;  // synchronises with the default stream
    std::shared_ptr<Capture> capture{};
    Frontier frontier{};
    Frontier pending{};  // what comes next waits for this, where nothing is captured
    int issued{0};       // so much was issued outside of captures
    int awaited{0};      // so much of it has been waited for
    double clock{0};
  };
  struct Event {
    int device;
    bool timed;
    bool recorded{false};
    Id stream{0};
    std::weak_ptr<Capture> capture{};
    bool captured{false};
    Frontier frontier{};
    Frontier pending{};
    int position{0};
    double time{0};
  };
  struct Exec {
    LaunchGraph graph;
    Id stream{0};
    int position{0};  // of the last launch, on that stream
  };

  Result FindStream(int device, Id id, const char* user, Stream** stream);
  Result FindEvent(Id id, Event** event);
  Result CheckDevices(Id stream_id, const Stream& stream, Id event_id, const Event& event);
  Result JoinCapture(Stream& stream, Id id, Event& event, Id event_id);
  Result Issue(Stream& stream, const std::string& name, const Work& work);
  void Await(Id stream, int position);
  Result Invalid(Capture& capture, Result result, const std::string& what);

  Journal& journal_;
  Id last_id_{0};
  std::map<int, Stream> defaults_;
  std::map<Id, Stream> streams_;
  std::map<Id, Event> events_;
  std::map<Id, LaunchGraph> graphs_;
  std::map<Id, Exec> execs_;
  std::vector<std::shared_ptr<Capture>> captures_;
  LaunchGraph pending_;
};

}  // namespace fake_driver
#endif  // TVM_IOS_TESTS_CUDA_MACHINE_H_
