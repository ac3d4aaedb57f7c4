// Gives communicators back to an engine whose calls for that may block for ever: on helper threads. Those that are aborted
// together go as one group of the engine, so that none of them waits for a kernel that only another's end would release.
//
// A call that never returns costs its thread and nothing else: later ones get threads of their own. What no thread could
// be started for is kept, and tried again. Any thread. Must not know: lifecycles, what a communicator of ours is.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "nccl2/driver/nccl_api.h"

namespace pycomms {

class Reaper {
 public:
  struct Victim {
    const NcclApi* nccl;
    // On the helper thread: waits until nobody uses the handle any more, and gives it. Null: somebody does, and it is better
    // leaked than freed under him.
    std::function<CommHandle()> take;
    std::function<void()> ended = nullptr;  // on the helper thread: the handle is gone
  };
  using StartThread = std::function<Result<std::thread>(std::function<void()> body)>;

  static Reaper& instance();  // of this process
  Reaper();
  explicit Reaper(StartThread start) : start_(std::move(start)) {}

  // How long at most: not at all, half a second, ten seconds. Briefly is for an abort that may be done only when others have
  // begun that the same thread makes next.
  enum class Wait { kNo, kBriefly, kYes };
  // All that this thread has aborted while it exists is aborted as one group when it ends. One inside another does nothing.
  class Together {
   public:
    // wait: the end waits for the aborts, but not for ever.
    explicit Together(Wait wait = Wait::kYes, Reaper& reaper = instance());
    ~Together();
    Together(const Together&) = delete;
    Together& operator=(const Together&) = delete;

    bool is_of_this_thread() const { return thread_ == std::this_thread::get_id(); }

   private:
    friend class Reaper;
    Reaper& reaper_;
    const Wait wait_;
    const std::thread::id thread_ = std::this_thread::get_id();
    std::vector<Victim> victims_;  // guarded by reaper_.mutex_
  };

  // Aborts it. Waits until that is done, but not for ever, unless it is done when a Together of this thread ends.
  void abort(Victim victim, Wait wait);
  // Destroys a communicator that has been finalized.
  void destroy(const NcclApi& nccl, CommHandle comm, std::function<void()> ended);
  // Starts what no thread could be started for.
  void retry();
  // Until the engines have returned from all calls; false when the deadline passed first.
  bool wait_until_idle(Deadline deadline);

 private:
  class Batch;
  void run(const std::shared_ptr<Batch>& batch, Wait wait);
  bool start(const std::shared_ptr<Batch>& batch);

  const StartThread start_;
  // Calls that have not returned. Shared with their threads, which may outlive a Reaper that is not the process's.
  const std::shared_ptr<std::atomic<uint32_t>> running_ = std::make_shared<std::atomic<uint32_t>>(0);
  std::mutex mutex_;
  std::vector<Together*> open_;                    // guarded by mutex_
  std::vector<std::shared_ptr<Batch>> unstarted_;  // guarded by mutex_
};

}  // namespace pycomms
