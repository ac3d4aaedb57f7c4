// Writes dumps on a thread of its own: whoever asks, the thread that has noticed a failure or a signal handler, goes on.
// Any thread. Must not know: Python, what has failed.
#pragma once

#include <semaphore.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "base/fork.h"
#include "base/status.h"
#include "recorder/ring.h"

namespace pycomms::recorder {

class Dumper {
 public:
  Dumper();
  static Dumper& instance();  // of this process: a forked child has its own

  // Once, before the first request. after(path): runs behind each dump, with nobody waiting for it.
  void set_up(std::string folder, int most, std::function<void(const std::string&)> after);
  // What is asked for while one is being written is one more. The first reason counts.
  void request(const std::string& reason);
  // For a signal handler; `signal` is the reason. Needs start(): a handler cannot start the thread.
  void request_from_signal(int signal);
  // Starts the thread, for good.
  Status start();
  // Waits until all that was asked for is written; false at the deadline.
  bool wait_until_idle(Deadline deadline);
  // After it nothing is written, and `after` has run for the last time or will never return.
  void stop(Deadline deadline);

 private:
  void run();                     // until nothing is asked for, unless it stays
  Status start_thread_if_none();  // mutex_ is held
  void write(const std::string& reason);

  sem_t requests_;
  std::atomic<int> signal_{0};
  std::mutex mutex_;
  std::string folder_;  // these: guarded by mutex_
  int left_ = 0;
  std::string reason_;
  bool has_thread_ = false;
  bool stays_ = false;  // a signal handler may ask, which cannot start a thread
  bool is_stopped_ = false;
  std::function<void(const std::string&)> after_;
  std::atomic<uint32_t> pending_{0};  // asked for and not yet written
};

// signal: what is noted in the ring when it comes. What was to happen then happens.
Status note_signal(int signal);
// signal: a dump is written when it comes, and nothing else happens.
Status dump_on_signal(int signal);

}  // namespace pycomms::recorder
