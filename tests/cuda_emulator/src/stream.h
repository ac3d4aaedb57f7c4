// A stream: a queue of device work and the thread that does it, in order. Work may depend on points of other streams.
//
// Threads: push, hold and close from any; the thread starts with the first work and ends after close, when the queue is
// empty. Whoever closed it joins the thread by destroying the stream once it has finished (Device::retire).
// Must not know: what decides the order between streams (submission.h), what captures (capture.h).
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "abi.h"
#include "delays.h"
#include "op.h"
#include "timeline.h"

namespace cuemu {

class Device;
struct Capture;
struct Node;

class Stream {
 public:
  Stream(Device& device, unsigned flags, int priority, uint64_t number);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Device& device;
  const unsigned flags;
  const int priority;
  const uint64_t number;  // counts the streams of the process
  bool is_blocking() const { return (flags & cuda_abi::kStreamNonBlocking) == 0; }

  // The work begins when all of `after` has been reached.
  Point push(Op op, std::vector<Point> after);
  Point tail() const;
  bool is_idle() const { return tail().done(); }

  // A held stream begins no work: tests make an order of events with it, without sleeping.
  void hold();
  void release();

  void close();
  bool has_finished() const;  // after close: the thread will touch nothing any more
  // Process exit: begin nothing new, wait for what runs, end the thread. False: it still runs.
  bool quiesce(std::chrono::steady_clock::time_point deadline);
  std::string describe() const;

  // Runs work on behalf of the calling stream thread: with its delay and its injected failures.
  static void run_work(const Op& op);
  // Makes the calling stream thread wait, inside a piece of work.
  static void wait_here(const Point& point) { running()->wait_for_turn(point); }

  // Guarded by submission_mutex(): what this stream is being captured into, and the nodes that its next one comes after.
  std::shared_ptr<Capture> capture;
  std::vector<Node*> frontier;
  std::vector<cuda_abi::GraphNodeHandle> reported_frontier;  // what cudaStreamGetCaptureInfo points its caller to

 private:
  struct Item {
    Op op;
    std::vector<Point> after;
  };

  static Stream*& running();  // of the calling thread
  void main();
  void execute(Item& item);
  bool wait_for_turn(const Point& point);

  const std::shared_ptr<Timeline> timeline_ = std::make_shared<Timeline>();
  DelaySource delays_;  // of the thread

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> queue_;  // GUARDED_BY(mutex_)
  uint64_t pushed_ = 0;     // GUARDED_BY(mutex_)
  std::string running_;     // GUARDED_BY(mutex_): empty while nothing runs
  bool held_ = false;       // GUARDED_BY(mutex_)
  bool closed_ = false;     // GUARDED_BY(mutex_)
  bool stopped_ = false;    // GUARDED_BY(mutex_): the process exits
  bool finished_ = false;   // GUARDED_BY(mutex_)
  std::thread thread_;      // GUARDED_BY(mutex_)
};

}  // namespace cuemu
