// SPDX-License-Identifier: Apache-2.0
#include "cuda/machine.h"

#include <algorithm>
#include <utility>

#include "cuda/order.h"

namespace fake_driver {
namespace {

std::string StreamName(Id id) { return "s" + std::to_string(id); }
std::string EventName(Id id) { return "e" + std::to_string(id); }
std::string GraphName(Id id) { return "g" + std::to_string(id); }
std::string ExecName(Id id) { return "x" + std::to_string(id); }

thread_local int thread_mode = kGlobal;

}  // namespace

int Machine::ExchangeMode(int mode) { return std::exchange(thread_mode, mode); }

// Streams

Result Machine::CreateStream(int device, unsigned flags, Id* stream) {
  if (device < 0) return journal_.Misuse(kInvalidContext, "stream without a context");
  if (const Result unsafe = CheckUnsafe("stream created")) return unsafe;
  *stream = ++last_id_;
  streams_.emplace(*stream, Stream{device, (flags & kStreamNonBlocking) == 0});
  journal_.Write("create " + StreamName(*stream));
  return kSuccess;
}

Result Machine::DestroyStream(int device, Id id) {
  Stream* stream = nullptr;
  if (const Result missing = FindStream(device, id, "destroy", &stream)) return missing;
  if (stream->capture) {
    return Invalid(*stream->capture, kCaptureUnsupported, StreamName(id) + " destroyed");
  }
  if (stream->issued > stream->awaited) {
    return journal_.Misuse(kInvalidHandle, StreamName(id) + " destroyed while it works");
  }
  streams_.erase(id);
  journal_.Write("destroy " + StreamName(id));
  return kSuccess;
}

Result Machine::Synchronize(int device, Id id) {
  Stream* stream = nullptr;
  if (const Result missing = FindStream(device, id, "synchronize", &stream)) return missing;
  if (stream->capture) {
    return Invalid(*stream->capture, kCaptureUnsupported, StreamName(id) + " synchronized");
  }
  stream->awaited = stream->issued;
  journal_.Write("synchronize " + StreamName(id));
  return Flush();
}

Result Machine::Launch(int device, Id id, const std::string& name, const Work& work) {
  Stream* stream = nullptr;
  if (const Result missing = FindStream(device, id, "launch", &stream)) return missing;
  if (stream->capture && !stream->capture->valid) return kCaptureInvalidated;
  journal_.Write("launch " + name + " " + StreamName(id));
  if (stream->capture) {
    stream->frontier = stream->capture->graph.Add(name, stream->frontier, work);
    return kSuccess;
  }
  ++stream->issued;
  stream->clock += 1;
  return Issue(*stream, name, work);
}

Result Machine::Issue(Stream& stream, const std::string& name, const Work& work) {
  if (work == nullptr) return kSuccess;
  if (Order().IsOfIssue()) {
    const Result done = Flush();
    return done != kSuccess ? done : work();
  }
  Frontier after = stream.pending;
  const auto join = [&](const Stream& other) {
    const bool waits = other.blocking && stream.blocking && other.device == stream.device;
    if (waits) after.insert(other.pending.begin(), other.pending.end());
  };
  const auto main = defaults_.find(stream.device);
  if (main != defaults_.end()) join(main->second);
  if (main != defaults_.end() && &main->second == &stream) {
    for (const auto& entry : streams_) join(entry.second);
  }
  stream.pending = pending_.Add(name, after, work);
  return kSuccess;
}

Result Machine::Flush() {
  const LaunchGraph work = std::exchange(pending_, LaunchGraph());
  for (auto& entry : defaults_) entry.second.pending.clear();
  for (auto& entry : streams_) entry.second.pending.clear();
  for (auto& entry : events_) entry.second.pending.clear();
  return work.Run();
}

Result Machine::Record(int device, Id event_id, Id id) {
  Stream* stream = nullptr;
  Event* event = nullptr;
  if (const Result missing = FindStream(device, id, "record", &stream)) return missing;
  if (const Result missing = FindEvent(event_id, &event)) return missing;
  if (stream->capture && !stream->capture->valid) return kCaptureInvalidated;
  if (const Result refused = CheckDevices(id, *stream, event_id, *event)) return refused;
  event->recorded = true;
  event->stream = id;
  event->capture = stream->capture;
  event->captured = stream->capture != nullptr;
  event->frontier = stream->frontier;
  event->pending = stream->pending;
  event->position = stream->issued;
  event->time = stream->clock;
  journal_.Write("record " + EventName(event_id) + " " + StreamName(id));
  return kSuccess;
}

Result Machine::RecordNode(int device, Id event_id, Id id) {
  Stream* stream = nullptr;
  Event* event = nullptr;
  if (const Result missing = FindStream(device, id, "record", &stream)) return missing;
  if (const Result missing = FindEvent(event_id, &event)) return missing;
  if (!stream->capture) {
    return journal_.Misuse(kInvalidValue, EventName(event_id) + " is no node: nothing is captured");
  }
  if (!stream->capture->valid) return kCaptureInvalidated;
  if (const Result refused = CheckDevices(id, *stream, event_id, *event)) return refused;
  stream->frontier =
      stream->capture->graph.AddRecord(EventName(event_id), event_id, stream->frontier);
  journal_.Write("node " + EventName(event_id) + " " + StreamName(id));
  return kSuccess;
}

Result Machine::Wait(int device, Id id, Id event_id) {
  Stream* stream = nullptr;
  Event* event = nullptr;
  if (const Result missing = FindStream(device, id, "wait", &stream)) return missing;
  if (const Result missing = FindEvent(event_id, &event)) return missing;
  if (!event->recorded) {
    return journal_.Misuse(kInvalidValue, EventName(event_id) + " was never recorded");
  }
  if (event->captured) {
    if (const Result refused = JoinCapture(*stream, id, *event, event_id)) return refused;
  } else if (stream->capture) {
    return Invalid(*stream->capture, kCaptureIsolation,
                   EventName(event_id) + " was recorded outside of the capture");
  } else {
    stream->clock = std::max(stream->clock, event->time);
    stream->pending.insert(event->pending.begin(), event->pending.end());
    Await(event->stream, event->position);
  }
  journal_.Write("wait " + StreamName(id) + " " + EventName(event_id));
  return kSuccess;
}

Result Machine::JoinCapture(Stream& stream, Id id, Event& event, Id event_id) {
  const std::shared_ptr<Capture> capture = event.capture.lock();
  if (capture == nullptr) {
    return journal_.Misuse(kInvalidValue, EventName(event_id) + " is of a capture that has ended");
  }
  if (!capture->valid) return kCaptureInvalidated;
  if (id == 0) return Invalid(*capture, kCaptureImplicit, "the default stream joins a capture");
  if (stream.capture != nullptr && stream.capture != capture) {
    return Invalid(*capture, kCaptureMerge, StreamName(id) + " is in another capture");
  }
  stream.capture = capture;
  stream.frontier.insert(event.frontier.begin(), event.frontier.end());
  return kSuccess;
}

// Events

Result Machine::CreateEvent(int device, unsigned flags, Id* event) {
  if (device < 0) return journal_.Misuse(kInvalidContext, "event without a context");
  *event = ++last_id_;
  events_.emplace(*event, Event{device, (flags & kEventDisableTiming) == 0});
  journal_.Write("create " + EventName(*event));
  return kSuccess;
}

Result Machine::DestroyEvent(Id id) {
  Event* event = nullptr;
  if (const Result missing = FindEvent(id, &event)) return missing;
  if (const std::shared_ptr<Capture> capture = event->capture.lock()) {
    return Invalid(*capture, kCapturedEvent, EventName(id) + " destroyed");
  }
  for (const auto& entry : execs_) {
    if (entry.second.graph.Records().count(id) == 0) continue;
    return journal_.Misuse(kCapturedEvent,
                           EventName(id) + " destroyed before " + ExecName(entry.first));
  }
  events_.erase(id);
  journal_.Write("destroy " + EventName(id));
  return kSuccess;
}

Result Machine::SynchronizeEvent(Id id) {
  Event* event = nullptr;
  if (const Result missing = FindEvent(id, &event)) return missing;
  if (event->captured) return journal_.Misuse(kCapturedEvent, EventName(id) + " is captured");
  Await(event->stream, event->position);
  journal_.Write("synchronize " + EventName(id));
  return Flush();
}

Result Machine::Elapsed(Id begin_id, Id end_id, float* milliseconds) {
  Event* begin = nullptr;
  Event* end = nullptr;
  if (const Result missing = FindEvent(begin_id, &begin)) return missing;
  if (const Result missing = FindEvent(end_id, &end)) return missing;
  const auto usable = [](const Event& e) { return e.timed && e.recorded && !e.captured; };
  if (!usable(*begin) || !usable(*end)) {
    return journal_.Misuse(kInvalidHandle,
                           "no time between " + EventName(begin_id) + " and " + EventName(end_id));
  }
  *milliseconds = static_cast<float>(end->time - begin->time);
  return kSuccess;
}

// Graphs

Result Machine::BeginCapture(int device, Id id, int mode) {
  Stream* stream = nullptr;
  if (const Result missing = FindStream(device, id, "begin", &stream)) return missing;
  if (id == 0 || stream->capture) {
    return journal_.Misuse(kCaptureUnsupported, StreamName(id) + " cannot be captured");
  }
  stream->capture = std::make_shared<Capture>(
      Capture{id, device, static_cast<CaptureMode>(mode), std::this_thread::get_id()});
  captures_.push_back(stream->capture);
  journal_.Write("begin " + StreamName(id));
  return kSuccess;
}

Result Machine::EndCapture(int device, Id id, Id* graph) {
  *graph = 0;
  Stream* stream = nullptr;
  if (const Result missing = FindStream(device, id, "end", &stream)) return missing;
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr || capture->origin != id) {
    return journal_.Misuse(kCaptureUnmatched, "no capture began on " + StreamName(id));
  }
  if (capture->mode != kRelaxed && capture->thread != std::this_thread::get_id()) {
    return Invalid(*capture, kCaptureWrongThread, "capture ended by another thread");
  }
  const bool complete = capture->graph.IsComplete(stream->frontier);
  for (auto& entry : streams_) {
    if (entry.second.capture != capture) continue;
    entry.second.capture = nullptr;
    entry.second.frontier.clear();
  }
  captures_.erase(std::find(captures_.begin(), captures_.end(), capture));
  if (!capture->valid) {
    journal_.Write("end " + StreamName(id) + " invalid");
    return kCaptureInvalidated;
  }
  if (!complete) return journal_.Misuse(kCaptureUnjoined, StreamName(id) + " ends unjoined");
  *graph = ++last_id_;
  journal_.Write("end " + StreamName(id) + " " + GraphName(*graph));
  graphs_.emplace(*graph, std::move(capture->graph));
  return kSuccess;
}

Result Machine::Status(int device, Id id, int* status) {
  Stream* stream = nullptr;
  if (const Result missing = FindStream(device, id, "ask", &stream)) return missing;
  *status = !stream->capture ? kNone : stream->capture->valid ? kActive : kInvalidated;
  return kSuccess;
}

Result Machine::Instantiate(Id graph, Id* exec) {
  const auto found = graphs_.find(graph);
  if (found == graphs_.end()) return journal_.Misuse(kInvalidHandle, "no graph to instantiate");
  *exec = ++last_id_;
  execs_.emplace(*exec, Exec{found->second});
  journal_.Write("instantiate " + GraphName(graph) + " " + ExecName(*exec));
  return kSuccess;
}

Result Machine::Replay(int device, Id exec, Id id) {
  Stream* stream = nullptr;
  if (const Result missing = FindStream(device, id, "replay", &stream)) return missing;
  const auto found = execs_.find(exec);
  if (found == execs_.end()) return journal_.Misuse(kInvalidHandle, "no graph to launch");
  if (stream->capture) {
    return Invalid(*stream->capture, kCaptureUnsupported, "a graph is launched in a capture");
  }
  found->second.stream = id;
  found->second.position = ++stream->issued;
  for (const auto& [event_id, depth] : found->second.graph.Records()) {
    const auto event = events_.find(event_id);
    if (event == events_.end()) {
      return journal_.Misuse(kInvalidHandle, EventName(event_id) + " of a graph is gone");
    }
    event->second.recorded = true;
    event->second.captured = false;
    event->second.stream = id;
    event->second.position = stream->issued;
    event->second.time = stream->clock + depth;
  }
  stream->clock += found->second.graph.Depth();
  journal_.Write("replay " + ExecName(exec) + " " + StreamName(id) + found->second.graph.Names());
  return Issue(*stream, ExecName(exec), [graph = found->second.graph] { return graph.Run(); });
}

Result Machine::DestroyGraph(Id graph) {
  if (graphs_.erase(graph) == 0) return journal_.Misuse(kInvalidHandle, "no graph to destroy");
  journal_.Write("destroy " + GraphName(graph));
  return kSuccess;
}

Result Machine::DestroyExec(Id exec) {
  const auto found = execs_.find(exec);
  if (found == execs_.end()) return journal_.Misuse(kInvalidHandle, "no graph to destroy");
  const auto stream = streams_.find(found->second.stream);
  if (stream != streams_.end() && stream->second.awaited < found->second.position) {
    return journal_.Misuse(kInvalidHandle, ExecName(exec) + " destroyed while it runs");
  }
  execs_.erase(found);
  journal_.Write("destroy " + ExecName(exec));
  return kSuccess;
}

// What they share

Result Machine::CheckUnsafe(const std::string& what) {
  for (const std::shared_ptr<Capture>& capture : captures_) {
    const bool own = capture->thread == std::this_thread::get_id();
    const bool forbidden = own ? capture->mode != kRelaxed && thread_mode != kRelaxed
                               : capture->mode == kGlobal && thread_mode == kGlobal;
    if (forbidden) return Invalid(*capture, kCaptureUnsupported, what + " during a capture");
  }
  return kSuccess;
}

Result Machine::FindStream(int device, Id id, const char* user, Stream** stream) {
  if (id == 0) {
    if (device < 0) return journal_.Misuse(kInvalidContext, std::string(user) + ": no context");
    *stream = &defaults_.emplace(device, Stream{device, true}).first->second;
    for (const std::shared_ptr<Capture>& capture : captures_) {
      if (capture->device == device && streams_.at(capture->origin).blocking) {
        return Invalid(*capture, kCaptureImplicit, std::string(user) + " on the default stream");
      }
    }
    return kSuccess;
  }
  const auto found = streams_.find(id);
  if (found == streams_.end()) {
    return journal_.Misuse(kInvalidHandle, std::string(user) + " of no stream");
  }
  *stream = &found->second;
  return kSuccess;
}

Result Machine::FindEvent(Id id, Event** event) {
  const auto found = events_.find(id);
  if (found == events_.end()) return journal_.Misuse(kInvalidHandle, "no event");
  *event = &found->second;
  return kSuccess;
}

Result Machine::CheckDevices(Id stream_id, const Stream& stream, Id event_id, const Event& event) {
  if (event.device == stream.device) return kSuccess;
  return journal_.Misuse(
      kInvalidHandle, EventName(event_id) + " is of another device than " + StreamName(stream_id));
}

void Machine::Await(Id id, int position) {
  const auto found = streams_.find(id);
  if (found != streams_.end()) {
    found->second.awaited = std::max(found->second.awaited, position);
  }
}

Result Machine::Invalid(Capture& capture, Result result, const std::string& what) {
  capture.valid = false;
  return journal_.Misuse(result, what);
}

}  // namespace fake_driver
