// The shared segment as one rank sees it: its own place, its peers, the bell of each, and the one failure that all share.
// Any thread of the rank. Must not know: operations.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/shared_memory.h"
#include "hostccl/layout.h"

namespace hostccl {

class Segment {
 public:
  Segment(std::shared_ptr<pycomms::SharedMapping> mapping, int nranks, int rank);

  int rank() const { return rank_; }
  int nranks() const { return layout_.nranks(); }
  const Layout& layout() const { return layout_; }
  std::byte* base() const { return mapping_->data(); }
  RankBlock& block(int rank) const { return *blocks_[static_cast<size_t>(rank)]; }
  RankBlock& mine() const { return block(rank_); }

  // Wakes `peer` if it sleeps. The caller has published what the peer waits for with a sequentially consistent store.
  void ring(int peer) const {
    Bell& bell = block(peer).bell;
    if (bell.sleepers.load(std::memory_order_seq_cst) != 0) wake(bell);
  }
  void ring_all() const {
    for (int peer = 0; peer < nranks(); ++peer) ring(peer);
  }

  bool has_failed() const {
    return fault_->word.load(std::memory_order_relaxed) != static_cast<uint32_t>(FaultWord::kHealthy);
  }
  // The first failure wins, and everybody who waits hears of it.
  void fail(const Failure& failure) const;
  // kNone while healthy.
  Failure failure() const;

 private:
  static void wake(Bell& bell);

  const std::shared_ptr<pycomms::SharedMapping> mapping_;
  const Layout layout_;
  const int rank_;
  FaultRecord* const fault_;
  std::vector<RankBlock*> blocks_;
};

}  // namespace hostccl
