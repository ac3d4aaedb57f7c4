#include "hostccl/windows/site.h"

#include <algorithm>
#include <utility>

#include "base/fork.h"
#include "hostccl/failures.h"
#include "hostccl/report.h"
#include "hostccl/windows/network.h"

namespace hostccl {
namespace {

using pycomms::Code;
using pycomms::Status;

constexpr int64_t kUntilUnused = 10 * pycomms::kSecond;

// What each rank tells before windows are served.
struct Introduction {
  uint8_t serves;
  net::Address::Encoded address;
};

}  // namespace

WindowSite::WindowSite(Means means)
    : means_(std::move(means)),
      rank_(means_.segment.rank()),
      nranks_(means_.segment.nranks()),
      fork_generation_(pycomms::fork_generation()) {}

WindowSite::~WindowSite() = default;

bool WindowSite::is_foreign() const { return fork_generation_ != pycomms::fork_generation(); }

bool WindowSite::stop(pycomms::Deadline deadline) {
  gate_.close();
  if (!gate_.wait_until_empty(deadline)) return false;
  return network_ == nullptr || network_->stop(deadline);
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

// All ranks are here, or none has been before.
Status WindowSite::connect(int64_t timeout_ns, std::vector<int>* about) {
  if (remote() != nullptr) return Status::ok();
  auto started = WindowNetwork::start({.secret = means_.secret,
                                       .rank = rank_,
                                       .nranks = nranks_,
                                       .find = [this](uint32_t number) { return find(number); },
                                       .is_dead = [this](int rank) { return is_dead(rank); },
                                       .trouble = [this](int peer) { return trouble_while_waiting(peer); }});
  Introduction mine{};
  std::shared_ptr<WindowNetwork> network;
  if (started.is_ok()) {
    network = started.take();
    mine = {1, network->address().encode()};
  }
  std::vector<Report> reports;
  PYCOMMS_RETURN_IF_ERROR(
      tell_all(to_report(mine), timeout_ns, &reports, about, "connecting the windows of several hosts"));
  if (!started.is_ok()) return started.status();
  std::vector<net::Address> addresses;
  for (size_t rank = 0; rank < reports.size(); ++rank) {
    const auto theirs = from_report<Introduction>(reports[rank]);
    auto address = net::Address::decode(theirs.address);
    if (theirs.serves == 0 || !address.is_ok()) {
      *about = {static_cast<int>(rank)};
      return {Code::kSystem, "rank " + std::to_string(rank) + " cannot serve its windows: its own error says why"};
    }
    addresses.push_back(address.value());
  }
  network->introduce(std::move(addresses));
  remote_.store(&network->remote(), std::memory_order_release);
  std::lock_guard lock(mutex_);
  network_ = std::move(network);
  return Status::ok();
}

Status WindowSite::trouble_while_waiting(int peer) const {
  PYCOMMS_RETURN_IF_ERROR(trouble_with(peer));
  thread_local int64_t asked_hook = 0;
  const int64_t now = pycomms::now_ns();
  if (now - asked_hook < kAskHookEvery) return Status::ok();
  asked_hook = now;
  return is_interrupted() ? Status(Code::kInterrupted, "interrupted") : Status::ok();
}

void WindowSite::add(uint32_t number, std::shared_ptr<const WindowMemory> memory) {
  std::lock_guard lock(mutex_);
  windows_[number] = std::move(memory);
}

// The memory is its owner's to free when this returns, so the caller's own deadline does not count: a session leaves a window
// after one burst.
bool WindowSite::remove(uint32_t number) {
  std::shared_ptr<WindowNetwork> network;
  {
    std::lock_guard lock(mutex_);
    windows_.erase(number);
    network = network_;
  }
  const pycomms::GateHolder inside(gate_);  // otherwise stop() sees to it
  return !inside || !network || network->service().wait_until_unused(number, pycomms::Deadline::after(kUntilUnused));
}

bool WindowSite::closes_another(int rank, uint32_t number) const {
  std::lock_guard lock(mutex_);
  return std::any_of(windows_.begin(), windows_.end(), [&](const auto& each) {
    const WindowMemory& window = *each.second;
    if (each.first == number || window.control().state.load(std::memory_order_seq_cst) != WindowState::kOpen)
      return false;
    const WindowState told = window.told_by(rank);
    return told == WindowState::kClosing || told == WindowState::kMisordered;
  });
}

std::shared_ptr<const WindowMemory> WindowSite::find(uint32_t number) const {
  std::lock_guard lock(mutex_);
  const auto found = windows_.find(number);
  return found == windows_.end() ? nullptr : found->second;
}

}  // namespace hostccl
