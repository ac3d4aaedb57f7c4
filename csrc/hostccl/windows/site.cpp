#include "hostccl/windows/site.h"

#include <cstring>
#include <utility>

#include "base/fork.h"
#include "hostccl/failures.h"
#include "hostccl/windows/network.h"

namespace hostccl {
using pycomms::Code;
using pycomms::Status;

WindowSite::WindowSite(Means means)
    : means_(std::move(means)),
      rank_(means_.segment.rank()),
      nranks_(means_.segment.nranks()),
      patience_(Patience::of_members(means_.segment)),
      fork_generation_(pycomms::fork_generation()) {}

WindowSite::~WindowSite() = default;

bool WindowSite::is_foreign() const { return fork_generation_ != pycomms::fork_generation(); }

bool WindowSite::stop(pycomms::Deadline deadline) {
  gate_.close();
  if (!gate_.wait_until_empty(deadline)) return false;
  remote_.store(nullptr, std::memory_order_release);
  network_.reset();
  return true;
}

std::string WindowSite::words_for_death_of(int rank) const {
  return death_of(means_.segment, rank, "a one-sided operation").text;
}

Status WindowSite::look_for_trouble(int peer) const {
  // Another member's death is no matter here; that the communicator was given up is.
  if (means_.is_cancelled()) return {Code::kCancelled, "the communicator was closed or aborted"};
  if (const Failure failure = means_.segment.failure(); failure.kind == FailureKind::kAborted) {
    return {Code::kCancelled, failure.text};
  }
  if (is_dead(peer)) return {Code::kPeerFailure, words_for_death_of(peer)};
  if (means_.segment.block(peer).presence.load(std::memory_order_acquire) == Presence::kClosed) {
    return {Code::kPeerFailure, "rank " + std::to_string(peer) + " has closed its communicator"};
  }
  return Status::ok();
}

Status WindowSite::tell_all(const Report& mine, int64_t timeout_ns, std::vector<Report>* all, std::vector<int>* about,
                            const char* doing) {
  RollCallResult heard = means_.roll_call(mine, timeout_ns);
  if (heard.result == nccl_abi::kSuccess) {
    *all = std::move(heard.reports);
    return Status::ok();
  }
  if (heard.result == nccl_abi::kTimeout && !heard.missing.empty()) {
    *about = heard.missing;
    return {Code::kTimeout, std::string(doing) + " timed out after " + seconds(timeout_ns) + ": " +
                                rank_list(heard.missing) + " did not come"};
  }
  const Failure failure = means_.segment.failure();
  about->assign(failure.ranks, failure.ranks + failure.nranks);
  const bool is_death = failure.kind == FailureKind::kPeerDead || failure.kind == FailureKind::kPeerClosed;
  return {is_death ? Code::kPeerFailure : Code::kCancelled, std::string(doing) + ": " + failure.text};
}

Status WindowSite::connect(int64_t) { return {Code::kSystem, "not connected"}; }

void WindowSite::add(uint32_t number, std::shared_ptr<const WindowMemory> memory) {
  std::lock_guard lock(mutex_);
  windows_[number] = std::move(memory);
}

bool WindowSite::remove(uint32_t number, pycomms::Deadline deadline) {
  std::weak_ptr<const WindowMemory> memory;
  {
    std::lock_guard lock(mutex_);
    const auto found = windows_.find(number);
    if (found == windows_.end()) return true;
    memory = found->second;
    windows_.erase(found);
  }
  static_cast<void>(deadline);
  return true;
}

std::shared_ptr<const WindowMemory> WindowSite::find(uint32_t number) const {
  std::lock_guard lock(mutex_);
  const auto found = windows_.find(number);
  return found == windows_.end() ? nullptr : found->second;
}

}  // namespace hostccl
