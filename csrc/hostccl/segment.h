// The shared segment as one rank sees it: its own place, its peers, the bell of each, and the one failure that all share.
// Each host of a communicator has one. What ranks of other hosts write is mirrored in it by their couriers, in the places
// where they would write themselves; so who reads need not know where a rank is.
// Any thread of the rank. Must not know: operations.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/shared_memory.h"
#include "hostccl/layout.h"
#include "hostccl/places.h"
#include "hostccl/remote.h"

namespace hostccl {

class Segment {
 public:
  Segment(std::shared_ptr<pycomms::SharedMapping> mapping, Places places, int rank);
  // Before anything is written or waited for; null when all ranks are here.
  void set_remote(Remote* remote) { remote_ = remote; }

  int rank() const { return rank_; }
  int nranks() const { return layout_.nranks(); }
  const Places& places() const { return places_; }
  bool is_here(int rank) const { return places_.is_here(rank); }
  const Layout& layout() const { return layout_; }
  std::byte* base() const { return mapping_->data(); }
  RankBlock& block(int rank) const { return *blocks_[static_cast<size_t>(rank)]; }
  RankBlock& mine() const { return block(rank_); }

  // Wakes `peer` if it sleeps. The caller has published what the peer waits for with a sequentially consistent store.
  void ring(int peer) const {
    if (remote_ != nullptr && !is_here(peer)) [[unlikely]]
      return remote_->published(peer);
    Bell& bell = block(peer).bell;
    if (bell.sleepers.load(std::memory_order_seq_cst) != 0) wake(bell);
  }
  void ring_all_here() const {
    for (const int peer : places_.ranks_here()) ring(peer);
  }
  // Why a rank of another host counts as gone, if this rank knows.
  std::string why_gone(int peer) const { return remote_ != nullptr ? remote_->why_gone(peer) : std::string(); }
  // Null when all ranks are here.
  Remote* remote() const { return remote_; }
  // Moves on what travels to and from other hosts. True when anything came.
  bool progress_remote() const { return remote_ != nullptr && remote_->progress(); }
  void ring_all() const {
    for (int peer = 0; peer < nranks(); ++peer) ring(peer);
  }

  bool has_failed() const {
    return fault_->word.load(std::memory_order_relaxed) != static_cast<uint32_t>(FaultWord::kHealthy);
  }
  // The first failure wins, and everybody who waits hears of it, here and elsewhere.
  void fail(const Failure& failure) const;
  // kNone while healthy.
  Failure failure() const;

 private:
  static void wake(Bell& bell);

  const std::shared_ptr<pycomms::SharedMapping> mapping_;
  const Layout layout_;
  const Places places_;
  const int rank_;
  Remote* remote_ = nullptr;
  FaultRecord* const fault_;
  std::vector<RankBlock*> blocks_;
};

}  // namespace hostccl
