#include "nccl2/core/reaper.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/fork.h"
#include "base/futex.h"
#include "base/thread.h"

namespace pycomms {
namespace {

int64_t patience(Reaper::Wait wait) {
  switch (wait) {
    case Reaper::Wait::kNo:
      return 0;
    case Reaper::Wait::kBriefly:
      return 500 * kMillisecond;
    case Reaper::Wait::kYes:
      return 10 * kSecond;
  }
  return 0;
}

using End = EngineResult (*)(CommHandle);

}  // namespace

// What one thread does. Shared by that thread and whoever waits for it.
class Reaper::Batch {
 public:
  Batch(std::vector<Victim> victims, End NcclApi::* end) : victims_(std::move(victims)), end_(end) {}
  ~Batch() {
    if (thread_.joinable()) thread_.detach();
  }

  // Several communicators of one engine are one group: each is told to stop before the first is waited for.
  void run() {
    std::map<const NcclApi*, std::vector<CommHandle>> handles;
    std::vector<std::function<void()>> ended;
    for (Victim& victim : victims_) {
      CommHandle comm = victim.take();
      if (comm == nullptr) continue;
      handles[victim.nccl].push_back(comm);
      if (victim.ended) ended.push_back(std::move(victim.ended));
    }
    victims_.clear();
    for (const auto& [nccl, comms] : handles) {
      const bool grouped = comms.size() > 1;
      if (grouped) static_cast<void>(nccl->group_start());
      for (const CommHandle comm : comms) static_cast<void>((nccl->*end_)(comm));
      if (grouped) static_cast<void>(nccl->group_end());
    }
    for (const auto& call : ended) call();
    done_.store(1, std::memory_order_seq_cst);
    futex_wake_all(done_);
  }

  void started(std::thread thread) {
    const std::lock_guard lock(mutex_);
    thread_ = std::move(thread);
  }

  void wait(Deadline deadline) {
    while (done_.load(std::memory_order_acquire) == 0 && !deadline.passed()) futex_wait(done_, 0, deadline.left());
    const std::lock_guard lock(mutex_);
    if (done_.load(std::memory_order_acquire) != 0 && thread_.joinable()) thread_.join();  // nothing is left of it
  }

 private:
  std::vector<Victim> victims_;
  End NcclApi::* const end_;
  std::atomic<uint32_t> done_{0};
  std::mutex mutex_;
  std::thread thread_;  // guarded by mutex_
};

Reaper& Reaper::instance() { return per_process<Reaper>(); }

Reaper::Reaper() : Reaper([](std::function<void()> body) { return start_thread("pycomms-abort", std::move(body)); }) {}

Reaper::Together::Together(Wait wait, Reaper& reaper) : reaper_(reaper), wait_(wait) {
  const std::lock_guard lock(reaper_.mutex_);
  reaper_.open_.push_back(this);
}

Reaper::Together::~Together() {
  std::vector<Victim> victims;
  {
    const std::lock_guard lock(reaper_.mutex_);
    std::erase(reaper_.open_, this);
    victims.swap(victims_);
  }
  if (!victims.empty()) reaper_.run(std::make_shared<Batch>(std::move(victims), &NcclApi::comm_abort), wait_);
}

void Reaper::abort(Victim victim, Wait wait) {
  {
    const std::lock_guard lock(mutex_);
    const auto here = [](const Together* one) { return one->is_of_this_thread(); };
    if (const auto found = std::find_if(open_.begin(), open_.end(), here); found != open_.end()) {
      (*found)->victims_.push_back(std::move(victim));
      return;
    }
  }
  std::vector<Victim> alone;
  alone.push_back(std::move(victim));
  run(std::make_shared<Batch>(std::move(alone), &NcclApi::comm_abort), wait);
}

void Reaper::destroy(const NcclApi& nccl, CommHandle comm, std::function<void()> ended) {
  std::vector<Victim> alone{{&nccl, [comm] { return comm; }, std::move(ended)}};
  run(std::make_shared<Batch>(std::move(alone), &NcclApi::comm_destroy), Wait::kYes);
}

void Reaper::run(const std::shared_ptr<Batch>& batch, Wait wait) {
  retry();
  if (!start(batch)) return;
  if (wait != Wait::kNo) batch->wait(Deadline::after(patience(wait)));
}

void Reaper::retry() {
  std::vector<std::shared_ptr<Batch>> batches;
  {
    const std::lock_guard lock(mutex_);
    if (unstarted_.empty()) return;
    batches.swap(unstarted_);
  }
  for (const auto& batch : batches) static_cast<void>(start(batch));
}

bool Reaper::start(const std::shared_ptr<Batch>& batch) {
  running_->fetch_add(1, std::memory_order_relaxed);
  const auto ended = [running = running_] {
    running->fetch_sub(1, std::memory_order_release);
    futex_wake_all(*running);
  };
  Result<std::thread> thread = start_([batch, ended] {
    batch->run();
    ended();
  });
  if (thread.is_ok()) {
    batch->started(thread.take());
    return true;
  }
  ended();
  const std::lock_guard lock(mutex_);
  unstarted_.push_back(batch);
  return false;
}

bool Reaper::wait_until_idle(Deadline deadline) {
  for (;;) {
    const uint32_t running = running_->load(std::memory_order_acquire);
    if (running == 0) return true;
    if (deadline.passed()) return false;
    futex_wait(*running_, running, deadline.left());
  }
}

}  // namespace pycomms
