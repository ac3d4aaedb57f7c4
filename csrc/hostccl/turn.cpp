#include "hostccl/turn.h"

#include "hostccl/p2p.h"

namespace hostccl {

std::string Lane::Turn::label() const {
  const std::string what = describe(header);
  const size_t space = what.find(' ');
  const std::string rest = space == std::string::npos ? "" : what.substr(space);
  return what.substr(0, space) + " #" + std::to_string(sequence) + rest;
}

void Lane::Turn::name(Failure& failure) const {
  failure.sequence = sequence;
  set_op(failure, kind_name(header.kind));
}

bool Lane::Turn::progress() { return lane_.p2p_.progress_if_pending(); }

// Whoever has entered a collective ends it before it closes: all that it owes the others is in the rings by then.
bool Lane::Turn::needs(int peer) const { return !has_arrived(peer); }

bool Lane::Turn::has_arrived(int peer) const {
  return lane_.segment_.block(peer).posted.load(std::memory_order_acquire) >= sequence;
}

std::string Lane::Turn::last_of(int peer) const {
  const RankBlock& block = lane_.segment_.block(peer);
  const uint64_t posted = block.posted.load(std::memory_order_acquire);
  if (posted == 0) return "it has entered no collective yet";
  const HeaderSlot& slot = block.headers[posted % kHeaderSlots];
  const bool complete = slot.sequence.load(std::memory_order_acquire) == posted;
  return "its last one was #" + std::to_string(posted) + (complete ? " " + describe(slot.header) : "");
}

Failure Lane::Turn::on_timeout(int64_t waited_ns) {
  std::vector<int> here, missing;
  for (int rank = 0; rank < lane_.nranks_; ++rank) (has_arrived(rank) ? here : missing).push_back(rank);
  Failure failure = make_failure(FailureKind::kTimeout, lane_.rank_, "");
  std::string text =
      label() + ": timeout after " + seconds(waited_ns) + " on rank " + std::to_string(lane_.rank_) + ": ";
  if (missing.empty()) {
    text += "all ranks have entered it, and the data did not come";
  } else {
    text += rank_list(here) + " arrived; " + rank_list(missing) + " did not";
    for (const int rank : missing) {
      add_rank(failure, rank);
      text += " (rank " + std::to_string(rank) + " is alive; " + last_of(rank) + ")";
    }
  }
  set_text(failure, text);
  name(failure);
  return failure;
}

Failure Lane::Turn::on_death(int peer) {
  Failure failure = death_of(lane_.segment_, peer, label());
  name(failure);
  return failure;
}

Failure Lane::Turn::on_closed(int peer) {
  Failure failure = closing_of(lane_.segment_, peer, label());
  name(failure);
  return failure;
}

Failure Lane::Turn::on_interrupt() {
  Failure failure = make_failure(FailureKind::kInterrupted, lane_.rank_,
                                 "rank " + std::to_string(lane_.rank_) + " was interrupted in " + label());
  add_rank(failure, lane_.rank_);
  name(failure);
  return failure;
}

}  // namespace hostccl
