#include "hostccl/communicator.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/fork.h"
#include "base/thread.h"
#include "hostccl/bootstrap.h"
#include "hostccl/doors.h"
#include "hostccl/external_streams.h"
#include "hostccl/failures.h"
#include "hostccl/net/siphash.h"
#include "hostccl/p2p_waiting.h"
#include "hostccl/queueing.h"
#include "hostccl/residence.h"

namespace hostccl {
namespace {

constexpr int64_t kDefaultTimeout = 1800 * pycomms::kSecond;
constexpr int kFirstPreMul = 5;  // reductions below are NCCL's own

// Waiting for the members to show up in the segment.
class Assembling final : public Waiting {
 public:
  explicit Assembling(const Segment& segment) : segment_(segment) {}
  bool progress() override { return false; }
  // Whoever leaves now has heard of a death, and the lobby tells us too, whose it was.
  bool needs(int) const override { return false; }
  Failure on_timeout(int64_t waited_ns) override {
    Failure failure = make_failure(FailureKind::kTimeout, segment_.rank(), "");
    std::vector<int> missing;
    for (int rank = 0; rank < segment_.nranks(); ++rank) {
      if (segment_.block(rank).presence.load(std::memory_order_acquire) != Presence::kAbsent) continue;
      missing.push_back(rank);
      add_rank(failure, rank);
    }
    set_text(failure, "making the communicator timed out after " + seconds(waited_ns) + ": " + rank_list(missing) +
                          " did not come");
    return failure;
  }
  Failure on_death(int peer) override { return death_of(segment_, peer, "the making of the communicator"); }
  Failure on_closed(int peer) override { return closing_of(segment_, peer, "the making of the communicator"); }
  Failure on_interrupt() override {
    return make_failure(FailureKind::kInterrupted, segment_.rank(),
                        "interrupted while the communicator was being made");
  }

 private:
  const Segment& segment_;
};

}  // namespace

Communicator::Communicator(int rank, int nranks)
    : rank_(rank),
      nranks_(nranks),
      fork_generation_(pycomms::fork_generation()),
      timeout_ns_(kDefaultTimeout),
      order_(external_streams() != nullptr ? std::make_shared<IssueOrder>(*this) : nullptr) {}

Communicator::~Communicator() {
  std::lock_guard lock(thread_mutex_);
  if (thread_.joinable()) thread_.join();
}

bool Communicator::is_foreign() const { return fork_generation_ != pycomms::fork_generation(); }

// --- joining

void Communicator::start_join(const nccl_abi::UniqueId& id, int64_t timeout_ns) {
  std::lock_guard lock(thread_mutex_);
  auto thread = pycomms::start_thread("pycomms-join", [this, id, timeout_ns] { settle(join_now(id, timeout_ns)); });
  if (thread.is_ok()) {
    thread_ = thread.take();
  } else {
    settle(make_failure(FailureKind::kSystem, rank_, thread.status().message()));
  }
}

Failure Communicator::join_now(const nccl_abi::UniqueId& id, int64_t timeout_ns) {
  const auto deadline = pycomms::Deadline::after(timeout_ns);
  const size_t bytes = Layout(nranks_).total_bytes();
  Failure why{};
  std::optional<Lobby> lobby = join(id, rank_, nranks_, bytes, deadline, cancelled_, why);
  secret_ = secret_of(id);
  if (!lobby) return why;
  why = set_up(*lobby, deadline);
  if (why.kind != FailureKind::kNone) lobby->leave(why);
  return why;
}

// The connections themselves are made when they are first used.
pycomms::Status Communicator::connect_hosts() {
  auto endpoint = process_endpoint();
  if (!endpoint.is_ok()) return endpoint.status();
  net::MeshOptions options{net::derive(secret_, "mesh"), secret_, rank_, {}};
  for (const Whereabouts& one : roster_) {
    auto address = net::Address::decode(one.tcp);
    if (!address.is_ok()) return address.status();
    options.addresses.push_back(address.value());
  }
  courier_ = std::make_unique<Courier>(*segment_);
  auto mesh = net::Mesh::make(endpoint.value(), std::move(options), courier_->sink());
  if (!mesh.is_ok()) return mesh.status();
  segment_->set_remote(courier_.get());
  return courier_->start(mesh.take());
}

Failure Communicator::set_up(Lobby& lobby, pycomms::Deadline deadline) {
  auto mapping = pycomms::SharedMapping::map(lobby.segment());
  if (!mapping.is_ok()) return make_failure(FailureKind::kSystem, rank_, mapping.status().message());
  auto home = residence();
  if (!home.is_ok()) return make_failure(FailureKind::kSystem, rank_, home.status().message());
  roster_ = lobby.roster();
  segment_ = std::make_unique<Segment>(mapping.take(), places_of(roster_, nranks_, rank_), rank_);
  if (!segment_->places().is_one_host()) {
    if (auto connected = connect_hosts(); !connected.is_ok()) {
      return make_failure(FailureKind::kSystem, rank_, "cannot reach the other hosts: " + connected.message());
    }
  }
  auto life = LifeHold::take(segment_->mine().life);
  if (!life.is_ok()) return make_failure(FailureKind::kSystem, rank_, life.status().message());
  life_ = life.take();
  watch_ = std::make_unique<PeerWatch>(*segment_);
  segment_->mine().cores.store(usable_cores(), std::memory_order_relaxed);
  segment_->mine().pid.store(getpid(), std::memory_order_relaxed);
  std::memcpy(segment_->mine().residence, home.value().socket, kSocketNameBytes);
  segment_->mine().presence.store(Presence::kPresent, std::memory_order_seq_cst);
  segment_->ring_all();
  return wait_for_members(lobby, deadline);
}

Failure Communicator::wait_for_members(Lobby& lobby, pycomms::Deadline deadline) {
  Assembling assembling(*segment_);
  Waiter waiter(*segment_, *watch_, assembling, Patience::of_members(*segment_), deadline.left(), false);
  auto assembled = [&] {
    for (int rank = 0; rank < nranks_; ++rank) {
      if (segment_->block(rank).presence.load(std::memory_order_acquire) == Presence::kAbsent) return false;
    }
    return true;
  };
  Failure why{};
  if (!waiter.until(
          [&] { return assembled() || !lobby.all_well(nranks_, why) || cancelled_.load(std::memory_order_acquire); })) {
    return segment_->failure();
  }
  if (why.kind != FailureKind::kNone) return why;
  if (cancelled_.load(std::memory_order_acquire) || !assembled()) {
    return make_failure(FailureKind::kAborted, rank_, "aborted while the communicator was being made");
  }
  lobby.leave();
  watch_->start();
  const Patience patience = Patience::of_members(*segment_);
  p2p_ = std::make_unique<P2p>(*segment_, patience);
  background_ = std::make_unique<Background>(*segment_, *watch_, *p2p_);
  lane_ = std::make_unique<Lane>(*segment_, *watch_, *p2p_, patience, reduces_by_hosts());
  windows_ = std::make_shared<WindowSite>(WindowSite::Means{
      .segment = *segment_,
      .patience = patience,
      .secret = secret_,
      .roll_call = [this](const Report& mine, int64_t ns) { return roll_call(RollCallKind::kWindow, mine, ns); },
      .is_cancelled = [this] { return cancelled_.load(std::memory_order_acquire); }});
  return Failure{};
}

void Communicator::settle(const Failure& failure) {
  join_failure_ = failure;
  state_.store(failure.kind == FailureKind::kNone ? State::kReady : State::kFailed, std::memory_order_release);
  settled_.store(1, std::memory_order_seq_cst);
  pycomms::futex_wake_all(settled_);
}

Result Communicator::wait_until_ready(pycomms::Deadline deadline) {
  while (settled_.load(std::memory_order_acquire) == 0) {
    if (deadline.passed()) return nccl_abi::kInProgress;
    pycomms::futex_wait(settled_, 0, deadline.left());
  }
  // Not async_error(): a member may have failed since, and then the first operation says so.
  return result_of(join_failure_.kind);
}

Result Communicator::async_error() const {
  switch (state_.load(std::memory_order_acquire)) {
    case State::kConnecting:
      return nccl_abi::kInProgress;
    case State::kFailed:
      return result_of(join_failure_.kind);
    case State::kReady:
      return segment_->has_failed() ? result_of(segment_->failure().kind) : nccl_abi::kSuccess;
  }
  return nccl_abi::kInternalError;
}

Failure Communicator::failure() const {
  switch (state_.load(std::memory_order_acquire)) {
    case State::kConnecting:
      return Failure{};
    case State::kFailed:
      return join_failure_;
    case State::kReady:
      return segment_->failure();
  }
  return Failure{};
}

// --- point to point

Result Communicator::post(P2pRequest request) {
  if (request.done == nullptr) return post_and_wait(request);
  if (segment_->has_failed()) return result_of(segment_->failure().kind);
  p2p_->post(request);
  if (p2p_->has_pending()) background_->wake();
  return nccl_abi::kSuccess;
}

Result Communicator::post_and_wait(P2pRequest request) {
  P2pEnding ending;
  const int64_t timeout_ns = std::exchange(request.timeout_ns, pycomms::kForever);  // the waiter has the deadline
  request.arg = &ending;
  request.done = P2pEnding::come;
  p2p_->post(request);
  static_cast<void>(wait_for(ending.has_come, request, timeout_ns, true));
  return ending.result;
}

Result Communicator::wait_for(const std::atomic<bool>& done, const P2pRequest& request, int64_t timeout_ns,
                              bool interruptible) {
  P2pWaiting waiting(*segment_, *p2p_, [&] { return p2p_->name(request); });
  Waiter waiter(*segment_, *watch_, waiting, Patience::of_members(*segment_), timeout_ns, interruptible);
  auto is_done = [&] { return done.load(std::memory_order_acquire); };
  if (waiter.until(is_done)) return nccl_abi::kSuccess;
  while (!is_done()) p2p_->progress();  // the communicator has failed: this ends what is pending
  return result_of(segment_->failure().kind);
}

// --- order across external streams

bool Communicator::wait_for_turn(const std::string& what, int64_t timeout_ns, const std::function<bool()>& has_come) {
  Queueing queueing(*segment_, *p2p_, what);
  Waiter waiter(*segment_, *watch_, queueing, Patience::of_members(*segment_), timeout_ns, false);
  return waiter.until([&] { return has_come(); });
}

// --- leaving

void Communicator::cancel(const std::string& why) {
  if (is_foreign()) return;  // the parent's communicator is none of a child's business
  cancelled_.store(true, std::memory_order_release);
  Failure failure =
      make_failure(FailureKind::kAborted, rank_, "rank " + std::to_string(rank_) + " aborted the communicator: " + why);
  add_rank(failure, rank_);
  fail(failure);
}

void Communicator::fail(const Failure& failure) {
  if (is_foreign() || state_.load(std::memory_order_acquire) != State::kReady) return;
  segment_->fail(failure);
  p2p_->progress();  // ends what is pending
}

Result Communicator::need_living(const std::string& op, bool* has_closed) {
  if (state_.load(std::memory_order_acquire) != State::kReady) return async_error();
  if (const int dead = watch_->find_dead(true); dead >= 0) segment_->fail(death_of(*segment_, dead, op));
  *has_closed = false;
  for (int rank = 0; rank < nranks_; ++rank) *has_closed |= rank != rank_ && watch_->has_closed(rank);
  return async_error();
}

Result Communicator::need_all(const std::string& op) {
  bool has_closed = false;
  const Result living = need_living(op, &has_closed);
  if (!has_closed) return living;
  for (int rank = 0; rank < nranks_; ++rank) {
    if (rank != rank_ && watch_->has_closed(rank)) segment_->fail(closing_of(*segment_, rank, op));
  }
  return async_error();
}

Result Communicator::abort(pycomms::Deadline deadline) {
  cancel("ncclCommAbort");
  return close(deadline);
}

// What has been posted for the others stays in the segment, which lives as long as one of us maps it.
Result Communicator::close(pycomms::Deadline deadline) {
  if (is_foreign()) return nccl_abi::kSuccess;
  gate_.close();
  cancelled_.store(true, std::memory_order_release);
  if (wait_until_ready(deadline) == nccl_abi::kInProgress) return nccl_abi::kTimeout;
  if (order_ && !order_->close(deadline)) return nccl_abi::kTimeout;
  if (windows_ && !windows_->stop(deadline)) return nccl_abi::kTimeout;
  if (p2p_) p2p_->close(nccl_abi::kRemoteError);
  if (!gate_.wait_until_empty(deadline)) return nccl_abi::kTimeout;
  background_.reset();
  if (p2p_) p2p_->close(nccl_abi::kRemoteError);  // what callers that were still inside have posted meanwhile
  if (segment_) {
    segment_->mine().presence.store(Presence::kClosed, std::memory_order_seq_cst);
    segment_->ring_all();
  }
  if (courier_) courier_->close(deadline);
  life_.reset();
  return nccl_abi::kSuccess;
}

// --- what comes after

Whereabouts Communicator::whereabouts_of_member(int rank) const {
  if (!roster_.empty()) return roster_[static_cast<size_t>(rank)];
  Whereabouts there{};
  if (auto host = this_host(); host.is_ok()) there.host = host.value();
  std::memcpy(there.socket, segment_->block(rank).residence, kSocketNameBytes);
  return there;
}

pycomms::Result<nccl_abi::UniqueId> Communicator::call_together(const std::vector<int>& members,
                                                                const std::string& what, pycomms::Deadline deadline) {
  const std::string number = std::to_string(called_together_.fetch_add(1, std::memory_order_relaxed));
  std::vector<Whereabouts> places;
  for (const int rank : members) places.push_back(whereabouts_of_member(rank));
  const std::string secret(secret_.begin(), secret_.end());
  const nccl_abi::UniqueId id = meeting_id(places.front(), secret + what + number, rank_list(members));
  if (members.front() == rank_) PYCOMMS_RETURN_IF_ERROR(convene(id, places, deadline));
  return id;
}

// --- premultiplied sums

int Communicator::add_premul(const PreMul& made) {
  std::lock_guard lock(premul_mutex_);
  auto place = std::find(premuls_.begin(), premuls_.end(), std::nullopt);
  if (place == premuls_.end()) place = premuls_.emplace(place);
  *place = made;
  return kFirstPreMul + static_cast<int>(place - premuls_.begin());
}

bool Communicator::find_premul(int op, Collective& collective) const {
  std::lock_guard lock(premul_mutex_);
  const auto index = static_cast<size_t>(op - kFirstPreMul);  // one that is too small becomes huge
  if (index >= premuls_.size()) return false;
  const std::optional<PreMul>& found = premuls_[index];
  if (!found || found->type != collective.type) return false;
  collective.factor = found->factor;
  collective.factor_at = found->factor_at;
  return true;
}

bool Communicator::remove_premul(int op) {
  std::lock_guard lock(premul_mutex_);
  const auto index = static_cast<size_t>(op - kFirstPreMul);
  if (index >= premuls_.size() || !premuls_[index]) return false;
  premuls_[index].reset();
  return true;
}

}  // namespace hostccl
