#include "hostccl/windows/window.h"

#include "hostccl/failures.h"
#include "hostccl/windows/locks.h"
#include "hostccl/windows/wait.h"

namespace hostccl {
namespace {

using pycomms::Code;
using pycomms::Deadline;
using pycomms::Status;

std::string window_of(int rank) { return "the window of rank " + std::to_string(rank); }

size_t total_of(std::span<const WindowPiece> pieces) {
  size_t total = 0;
  for (const WindowPiece& piece : pieces) total += piece.bytes;
  return total;
}

Status refused(const std::string& what) { return {Code::kInvalidArgument, what}; }

}  // namespace

Status Window::check_rank(int peer) const {
  if (peer >= 0 && peer < nranks()) [[likely]]
    return Status::ok();
  return refused("peer is " + std::to_string(peer) + ", but the window has ranks 0 to " + std::to_string(nranks() - 1));
}

Status Window::check(const Inside& inside, int peer) const {
  if (!inside) return {Code::kInvalidState, "the communicator of the window is closed"};
  if (site_->is_foreign()) {
    return {Code::kInvalidState, "this process was forked from the one that made the window, and cannot use it"};
  }
  PYCOMMS_RETURN_IF_ERROR(check_rank(peer));
  if (mine_->is_closed()) return {Code::kInvalidState, "the window is closed"};
  PYCOMMS_RETURN_IF_ERROR(site_->trouble_with(peer));
  if (has_closed(peer)) {
    return {Code::kPeerFailure, "rank " + std::to_string(peer) + " has closed the window"};
  }
  return Status::ok();
}

bool Window::has_closed(int peer) const {
  const Peer& there = this->peer(peer);
  return there.is_served ? is_over(mine_->told_by(peer)) : there.memory.is_closed();
}

Status Window::attr(int peer, WindowAttr* attr) const {
  PYCOMMS_RETURN_IF_ERROR(check_rank(peer));
  const Peer& there = this->peer(peer);
  *attr = {there.is_served ? WindowReach::kServed : WindowReach::kMapped, there.memory.bytes, there.memory.data,
           has_closed(peer)};
  if (peer == rank()) attr->reach = WindowReach::kSelf;
  return Status::ok();
}

Status Window::map(int peer, void** data, std::shared_ptr<pycomms::SharedMapping>* hold) const {
  const Inside inside(*this);
  PYCOMMS_RETURN_IF_ERROR(check(inside, peer));
  const Peer& there = this->peer(peer);
  if (there.is_served) {
    const bool is_here = site_->segment().is_here(peer);
    return refused(is_here ? window_of(peer) + " is private memory, which cannot be mapped here"
                           : window_of(peer) + " is on another host, and cannot be mapped here");
  }
  *data = there.memory.data;
  *hold = there.memory.data_hold;
  return Status::ok();
}

// --- data

Status Window::put(int peer, std::span<const WindowPiece> pieces, const std::byte* source, const WindowSignal* signal,
                   int64_t timeout_ns) {
  const Inside inside(*this);
  PYCOMMS_RETURN_IF_ERROR(check(inside, peer));
  const Peer& there = this->peer(peer);
  if (std::string wrong = check_pieces(there.memory, pieces); !wrong.empty()) [[unlikely]]
    return refused(window_of(peer) + ": " + wrong);
  if (source == nullptr && total_of(pieces) > 0) return refused("source is null");
  if (signal != nullptr) {
    if (std::string wrong = check_signal(*mine_, *signal); !wrong.empty()) return refused(wrong);
  }
  if (there.is_served) {
    return site_->remote()->put(peer, number_, pieces, source, signal, Deadline::after(timeout_ns));
  }
  for (const WindowPiece& piece : pieces) {
    put_piece(there.memory, piece, source);
    source += piece.bytes;
  }
  if (signal != nullptr) hostccl::signal(there.memory, rank(), *signal);
  return Status::ok();
}

Status Window::get(int peer, std::span<const WindowPiece> pieces, std::byte* destination, int64_t timeout_ns) {
  const Inside inside(*this);
  PYCOMMS_RETURN_IF_ERROR(check(inside, peer));
  const Peer& there = this->peer(peer);
  if (std::string wrong = check_pieces(there.memory, pieces); !wrong.empty()) [[unlikely]]
    return refused(window_of(peer) + ": " + wrong);
  if (destination == nullptr && total_of(pieces) > 0) return refused("destination is null");
  if (there.is_served) return site_->remote()->get(peer, number_, pieces, destination, Deadline::after(timeout_ns));
  for (const WindowPiece& piece : pieces) {
    get_piece(there.memory, piece, destination);
    destination += piece.bytes;
  }
  // Who died meanwhile may have left half of what it was writing.
  return site_->trouble_with(peer);
}

Status Window::update(int peer, std::span<const WindowPiece> pieces, DataType type, WindowOp op,
                      const std::byte* operands, std::byte* old, int64_t timeout_ns) {
  const Inside inside(*this);
  PYCOMMS_RETURN_IF_ERROR(check(inside, peer));
  const Peer& there = this->peer(peer);
  std::string wrong = check_update(type, op);
  if (wrong.empty()) wrong = check_pieces(there.memory, pieces);
  if (wrong.empty()) wrong = check_elements(there.memory, pieces, type);
  if (!wrong.empty()) return refused(window_of(peer) + ": " + wrong);
  if (operands == nullptr && op != WindowOp::kFetch && total_of(pieces) > 0) return refused("operands is null");
  if (there.is_served) {
    return site_->remote()->update(peer, number_, pieces, type, op, operands, old, Deadline::after(timeout_ns));
  }
  for (const WindowPiece& piece : pieces) {
    update_piece(there.memory, piece, type, op, operands, old);
    if (operands != nullptr) operands += piece.bytes;
    if (old != nullptr) old += piece.bytes;
  }
  return Status::ok();
}

Status Window::compare_swap(int peer, uint64_t offset, DataType type, const void* expected, const void* desired,
                            void* old, int64_t timeout_ns) {
  const Inside inside(*this);
  PYCOMMS_RETURN_IF_ERROR(check(inside, peer));
  const Peer& there = this->peer(peer);
  std::string wrong = check_update(type, WindowOp::kReplace);
  if (wrong.empty()) {
    const WindowPiece piece{offset, element_size(type)};
    wrong = check_pieces(there.memory, {&piece, 1});
    if (wrong.empty()) wrong = check_elements(there.memory, {&piece, 1}, type);
  }
  if (!wrong.empty()) return refused(window_of(peer) + ": " + wrong);
  if (expected == nullptr || desired == nullptr || old == nullptr) return refused("expected, desired or old is null");
  if (there.is_served) {
    return site_->remote()->compare_swap(peer, number_, offset, type, expected, desired, old,
                                         Deadline::after(timeout_ns));
  }
  hostccl::compare_swap(there.memory, offset, type, expected, desired, old);
  return Status::ok();
}

Status Window::flush(int peer, int64_t timeout_ns, int* about) {
  const Inside inside(*this);
  *about = peer;
  PYCOMMS_RETURN_IF_ERROR(check(inside, peer == -1 ? rank() : peer));
  return fence(peer, timeout_ns, about);
}

Status Window::fence(int peer, int64_t timeout_ns, int* about) {
  fence_.fetch_add(1, std::memory_order_seq_cst);  // nothing passes it, neither stores nor loads
  RemoteWindows* const remote = site_->remote();
  if (remote == nullptr) return Status::ok();
  const auto deadline = Deadline::after(timeout_ns);
  Status first;
  for (int rank = 0; rank < nranks(); ++rank) {
    if ((peer != -1 && rank != peer) || !this->peer(rank).is_served) continue;
    if (peer == -1 && site_->is_dead(rank)) continue;  // all that live
    Status flushed = remote->flush(rank, deadline);
    if (flushed.is_ok() || !first.is_ok()) continue;
    first = std::move(flushed);
    *about = rank;
  }
  return first;
}

// --- signals

Status Window::signal(int peer, const WindowSignal& signal, int64_t timeout_ns) {
  return put(peer, {}, nullptr, &signal, timeout_ns);
}

bool Window::take_signal(int source, int slot, int64_t count) {
  std::atomic<int64_t>& cell = mine_->layout.signal(mine_->block, source, slot);
  int64_t have = cell.load(std::memory_order_acquire);
  while (have >= count) {
    if (cell.compare_exchange_weak(have, have - count, std::memory_order_acq_rel)) return true;
  }
  return false;
}

Status Window::wait_signal(std::span<const int> peers, bool all_of, int slot, int64_t count, int64_t timeout_ns,
                           size_t* which, int* about) {
  const Inside inside(*this);
  PYCOMMS_RETURN_IF_ERROR(check(inside, rank()));
  if (peers.empty() && !all_of) return refused("peers is empty, and one of them was to signal");
  for (const int peer : peers) PYCOMMS_RETURN_IF_ERROR(check_rank(peer));
  if (std::string wrong = check_signal(*mine_, {slot, SignalChange::kAdd, 0}); !wrong.empty()) return refused(wrong);
  if (count < 1) return refused("count is " + std::to_string(count) + ", expected at least 1");
  std::vector<bool> taken(peers.size(), false);
  auto ready = [&] {
    bool all = true;
    for (size_t i = 0; i < peers.size(); ++i) {
      if (!taken[i]) taken[i] = take_signal(peers[i], slot, count);
      if (taken[i] && !all_of) {
        if (which != nullptr) *which = i;
        return true;
      }
      all &= taken[i];
    }
    return all;
  };
  // Of those who still have to signal one is enough to end the wait for all; the wait for any goes on while one is well.
  auto trouble = [&] {
    Status why;
    for (size_t i = 0; i < peers.size(); ++i) {
      if (taken[i]) continue;
      Status one = check(inside, peers[i]);
      if (one.is_ok() && !all_of) return one;
      if (!why.is_ok() || one.is_ok()) continue;
      why = one;
      *about = peers[i];
    }
    return why;
  };
  const int64_t started = pycomms::now_ns();
  BellWait wait(mine_->control().signalled, site_->patience(), Deadline::after(timeout_ns));
  auto look_once = [&] {
    if (ready()) return Status::ok();
    const Status why = trouble();
    if (ready()) return Status::ok();  // it may have come before the trouble
    return why.is_ok() ? Status(Code::kTimeout, "") : why;
  };
  const Status waited = timeout_ns == 0 ? look_once() : wait.until(ready, trouble);
  if (waited.is_ok()) return waited;
  const std::string missing = words_for_missing_signals(peers, taken, slot, count, pycomms::now_ns() - started);
  for (size_t i = 0; i < peers.size(); ++i) {
    if (taken[i]) mine_->layout.signal(mine_->block, peers[i], slot).fetch_add(count, std::memory_order_acq_rel);
  }
  return waited.code() == Code::kTimeout ? Status(Code::kTimeout, missing) : waited;
}

std::string Window::words_for_missing_signals(std::span<const int> peers, const std::vector<bool>& taken, int slot,
                                              int64_t count, int64_t waited_ns) const {
  std::string missing;
  for (size_t i = 0; i < peers.size(); ++i) {
    if (taken[i]) continue;
    const int64_t have = mine_->layout.signal(mine_->block, peers[i], slot).load(std::memory_order_acquire);
    missing += (missing.empty() ? "rank " : ", rank ") + std::to_string(peers[i]) + " (" + std::to_string(have) + ")";
  }
  return "waited " + seconds(waited_ns) + " for a count of " + std::to_string(count) + " in slot " +
         std::to_string(slot) + ", which has not come from " + missing;
}

Status Window::read_signal(int peer, int slot, int64_t* value) const {
  const Inside inside(*this);
  PYCOMMS_RETURN_IF_ERROR(check(inside, rank()));
  PYCOMMS_RETURN_IF_ERROR(check_rank(peer));
  if (std::string wrong = check_signal(*mine_, {slot, SignalChange::kAdd, 0}); !wrong.empty()) return refused(wrong);
  *value = mine_->layout.signal(mine_->block, peer, slot).load(std::memory_order_acquire);
  return Status::ok();
}

// --- locks

Status Window::lock(int peer, bool shared, int64_t timeout_ns, int* broken) {
  const Inside inside(*this);
  PYCOMMS_RETURN_IF_ERROR(check(inside, peer));
  const Peer& there = this->peer(peer);
  const auto deadline = Deadline::after(timeout_ns);
  if (there.is_served) return site_->remote()->lock(peer, number_, shared, broken, deadline);
  const int64_t started = pycomms::now_ns();
  WindowLockAttempt attempt(there.memory, rank(), shared, [this](int holder) { return site_->is_dead(holder); });
  BellWait wait(there.memory.control().unlocked, site_->patience(), deadline);
  Status got = wait.until([&] { return attempt.try_now(); }, [&] { return check(inside, peer); });
  if (got.is_ok()) {
    *broken = attempt.broken();
    if (!shared) holds_alone_[static_cast<size_t>(peer)].store(true, std::memory_order_relaxed);
    return site_->trouble_with(peer);  // whose lock it is may have been its dead holder
  }
  const int holder = attempt.holder();
  attempt.give_up();
  if (got.code() != Code::kTimeout) return got;
  return {Code::kTimeout, "waited " + seconds(pycomms::now_ns() - started) + " for the lock of " + window_of(peer) +
                              (holder >= 0 ? ", which rank " + std::to_string(holder) + " holds" : "")};
}

Status Window::unlock(int peer, bool shared, int64_t timeout_ns) {
  const Inside inside(*this);
  PYCOMMS_RETURN_IF_ERROR(check(inside, peer));
  const Peer& there = this->peer(peer);
  if (there.is_served) return site_->remote()->unlock(peer, number_, shared, Deadline::after(timeout_ns));
  // The mark may also be that of a thread of this rank which still waits.
  const bool holds = shared || holds_alone_[static_cast<size_t>(peer)].exchange(false, std::memory_order_relaxed);
  if (holds && hostccl::unlock(there.memory, rank(), shared)) return Status::ok();
  return refused("this rank does not hold the lock of " + window_of(peer));
}

}  // namespace hostccl
