#include "nccl2/c10d/work_poll.h"

#include <condition_variable>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "base/fork.h"
#include "base/thread.h"

namespace pycomms::c10d_backend {
namespace {

// While some end; what nobody waits for may never say that it has ended, and is asked less and less often.
constexpr auto kPollEvery = std::chrono::milliseconds(5);
constexpr auto kPollAtLeast = std::chrono::milliseconds(200);

class WorkPoll {
 public:
  static WorkPoll& instance() { return per_process<WorkPoll>(); }

  void add(c10::intrusive_ptr<::c10d::Work> work, std::function<void(const std::exception_ptr&)> ended) {
    const std::lock_guard lock(mutex_);
    watched_.push_back({std::move(work), std::move(ended)});
    if (!has_thread_) {
      auto thread = start_thread("pycomms-works", [this] { run(); });
      if (!thread.is_ok()) return;  // then nobody will say when these end, until the next one tries again
      thread.take().detach();
      has_thread_ = true;
    }
    wake_.notify_one();
  }

 private:
  struct Watched {
    c10::intrusive_ptr<::c10d::Work> work;
    std::function<void(const std::exception_ptr&)> ended;
  };

  // What asking throws, which the Work of a third party may, is how it has ended.
  static bool has_ended(::c10d::Work& work, std::exception_ptr* error) {
    try {
      if (!work.isCompleted()) return false;
      *error = work.exception();
    } catch (...) {
      *error = std::current_exception();
    }
    return true;
  }

  void run() {
    std::unique_lock lock(mutex_);
    for (auto pause = kPollEvery;;) {
      wake_.wait(lock, [&] { return !watched_.empty(); });
      std::vector<Watched> now = std::move(watched_);
      watched_.clear();
      lock.unlock();
      std::vector<Watched> pending;
      for (Watched& one : now) {
        std::exception_ptr error;
        if (!has_ended(*one.work, &error)) {
          // When nobody else holds it nobody will wait for it, and some never end then: its tensors are let go.
          if (one.work.use_count() > 1) pending.push_back(std::move(one));
        } else {
          one.ended(error);
        }
      }
      pause = pending.size() < now.size() ? kPollEvery : std::min(2 * pause, kPollAtLeast);
      now.clear();
      lock.lock();
      watched_.insert(watched_.begin(), std::make_move_iterator(pending.begin()),
                      std::make_move_iterator(pending.end()));
      if (!watched_.empty()) wake_.wait_for(lock, pause);
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Watched> watched_;  // guarded by mutex_
  bool has_thread_ = false;       // likewise
};

}  // namespace

void poll_until_ended(c10::intrusive_ptr<::c10d::Work> work, std::function<void(const std::exception_ptr&)> ended) {
  WorkPoll::instance().add(std::move(work), std::move(ended));
}

}  // namespace pycomms::c10d_backend
