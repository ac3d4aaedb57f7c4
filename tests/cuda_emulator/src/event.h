// An event: a mark at a point of a stream, or at a place in a graph under capture.
//
// Threads: any. What it holds is guarded by submission_mutex().
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "capture.h"
#include "timeline.h"

namespace cuemu {

class Device;

// One recording. A later one replaces it in the event; those who wait for this one keep it.
struct Recording {
  Point point;
  std::atomic<std::chrono::steady_clock::time_point> time{};  // set by the stream as it passes
};

class Event : public std::enable_shared_from_this<Event> {
 public:
  Event(Device& owner, unsigned event_flags) : device(owner), flags(event_flags) {}

  Device& device;
  const unsigned flags;

  // external: in a capture, a node that records or waits at each launch, instead of a dependency inside the graph.
  void record(Stream& stream, bool external);
  void make_wait(Stream& stream, bool external);
  bool query() const;
  void synchronize() const;
  float milliseconds_until(const Event& later) const;

 private:
  Op external_record();
  Op external_wait();
  std::shared_ptr<Recording> recording() const;  // null: never recorded. Throws when it was recorded in a capture.
  std::shared_ptr<Recording> timed_recording() const;

  std::shared_ptr<Recording> recording_;
  std::shared_ptr<Capture> capture_;  // where it was recorded last, when that was in a capture, and after which nodes
  std::vector<Node*> frontier_;
};

}  // namespace cuemu
