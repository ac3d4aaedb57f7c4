#include "nccl2/c10d/work_poll.h"

#include <algorithm>
#include <condition_variable>
#include <iterator>
#include <mutex>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/fork.h"
#include "base/thread.h"
#include "nccl2/c10d/device_group.h"

namespace pycomms::c10d_backend {
namespace {

// While some end; what nobody waits for may never say that it has ended, and is asked less and less often.
constexpr auto kPollEvery = std::chrono::milliseconds(5);
constexpr auto kPollAtLeast = std::chrono::milliseconds(200);

class WorkPoll {
 public:
  static WorkPoll& instance() { return per_process<WorkPoll>(); }

  void add(c10::intrusive_ptr<::c10d::Work> work, std::optional<c10::Device> device, ToldOfEnd told) {
    const std::lock_guard lock(mutex_);
    watched_.push_back({std::move(work), device, std::move(told)});
    wake_.notify_one();
    if (has_thread_) return;
    auto thread = start_thread("pycomms-works", [this] { run(); });
    if (!thread.is_ok()) return;  // then nobody will say when these end, until the next one tries again
    thread.take().detach();
    has_thread_ = true;
  }

 private:
  struct Watched {
    c10::intrusive_ptr<::c10d::Work> work;
    std::optional<c10::Device> device;
    ToldOfEnd told;

    // True once it has told. What asking throws, which the Work of a third party may, is how it has ended.
    bool ask() const {
      std::exception_ptr error;
      try {
        if (!work->isCompleted()) {
          if (device || work.use_count() > 1) return false;
          told(WorkEnd::kNobodyWaits, nullptr);
          return true;
        }
        error = work->exception();
      } catch (...) {
        error = std::current_exception();
      }
      told(WorkEnd::kEnded, error);
      return true;
    }
  };

  void run() {
    std::vector<Watched> mine;
    for (auto pause = kPollEvery;;) {
      {
        std::unique_lock lock(mutex_);
        if (!mine.empty() && watched_.empty()) wake_.wait_for(lock, pause);
        std::move(watched_.begin(), watched_.end(), std::back_inserter(mine));
        watched_.clear();
        if (mine.empty()) {
          has_thread_ = false;
          return;
        }
      }
      for (const Watched& one : mine) {
        if (one.device) allow_queries_during_capture(*one.device);
      }
      const size_t some_ended = std::erase_if(mine, [](const Watched& one) { return one.ask(); });
      pause = some_ended != 0 ? kPollEvery : std::min(2 * pause, kPollAtLeast);
    }
  }

  static void allow_queries_during_capture(c10::Device device) {
    if (thread_local bool may_query = false; !std::exchange(may_query, true)) {
      device_events(device).allow_queries_during_capture();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Watched> watched_;  // guarded by mutex_: that are new to the thread
  bool has_thread_ = false;       // likewise
};

}  // namespace

void poll_until_ended(c10::intrusive_ptr<::c10d::Work> work, std::optional<c10::Device> device, ToldOfEnd told) {
  WorkPoll::instance().add(std::move(work), device, std::move(told));
}

}  // namespace pycomms::c10d_backend
