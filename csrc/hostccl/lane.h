// The lane of a communicator's collectives: one after the other, in the same order on every rank. Each begins with a
// meeting: every rank posts a header (with its data, if small) and reads everybody's; only when all agree is data trusted.
//
//   small   all data travels with the headers: one meeting, no further message
//   large   chunks flow through rings in a pipeline (flow.h)
//
// Threads: whoever holds the lane's mutex runs it, the caller itself or a stream's thread.
// Must not know: streams, callbacks, NCCL's ABI.
#pragma once

#include <atomic>
#include <mutex>
#include <vector>

#include "hostccl/flow.h"
#include "hostccl/op.h"
#include "hostccl/ring.h"
#include "hostccl/segment.h"
#include "hostccl/wait.h"

namespace hostccl {

class P2p;

// How much travels how, in bytes; measured, see docs/performance.md. Fixed at start and the same on every rank: it decides
// which way data goes.
struct Tuning {
  size_t small_symmetric;  // up to this size data travels with the headers, where all ranks give and take alike
  size_t small_rooted;     // the same where one rank gives or takes: beyond it a pipeline is faster
  size_t most_ahead;       // of a flow that sends what another one reads again
  size_t least_chunk;      // of large data
  bool one_ring;           // two ranks: chunks as large as the ring allows, for nothing else is in the caches
  static Tuning for_places(const Places& places);
  size_t chunk_symmetric(size_t bytes) const;
  size_t chunk_rooted(size_t bytes) const;
};

class Lane {
 public:
  // by_hosts: large reductions may go by hosts (shares.h); the same on all ranks.
  Lane(const Segment& segment, const PeerWatch& watch, P2p& p2p, const Patience& patience, bool by_hosts);

  // Runs the collective on the calling thread. On failure the segment holds the reason.
  Result run(const Collective& op, int64_t timeout_ns, bool interruptible);

  // True in a signal handler or a completion that runs in the middle of a collective of this lane: another one cannot run.
  bool is_running_here() const;

  uint64_t sequence() const { return sequence_.load(std::memory_order_relaxed); }

 private:
  class Turn;     // one collective under way: how it waits and names itself
  class ByHosts;  // the flows of an all_reduce on several hosts

  // --- meeting (lane.cpp)
  HeaderSlot& begin(Turn& turn, const Collective& op);
  std::byte* reserve(HeaderSlot& slot, size_t bytes);
  void put(std::byte* reserved, const std::byte* from, size_t bytes) const;
  void post(HeaderSlot& slot);
  bool meet(Turn& turn);
  bool meet_one(Turn& turn, int peer);
  const HeaderSlot& slot_of(int rank) const;
  const std::byte* payload_of(int rank) const;
  size_t payload_bytes(int rank) const;
  template <typename BytesFrom>
  bool came_with(const Turn& turn, BytesFrom bytes_from);
  bool came_with_all(const Turn& turn, size_t bytes);
  void report_nonsense(const Turn& turn, int peer);
  void report_mismatch(const Turn& turn);
  void mismatch(const Turn& turn, int a, int b, const std::string& text);

  // --- what travels how (lane_movement.cpp, lane_reductions.cpp)
  bool dispatch(Turn& turn, const Collective& op);
  bool barrier(Turn& turn, const Collective& op);
  bool broadcast(Turn& turn, const Collective& op);
  bool all_reduce(Turn& turn, const Collective& op);
  bool reduce_to_root(Turn& turn, const Collective& op);
  bool all_gather(Turn& turn, const Collective& op);
  bool gather(Turn& turn, const Collective& op);
  bool scatter(Turn& turn, const Collective& op);
  bool reduce_scatter(Turn& turn, const Collective& op);
  bool all_to_all(Turn& turn, const Collective& op);

  bool small_all_reduce(Turn& turn, const Collective& op, size_t bytes);
  bool large_all_reduce(Turn& turn, const Collective& op);
  bool staged_all_reduce(Turn& turn, const Collective& op);
  bool exchange_all_reduce(Turn& turn, const Collective& op, FlowStyle how);
  bool all_reduce_by_hosts(Turn& turn, const Collective& op);
  bool direct_all_reduce(Turn& turn, const Collective& op, const std::vector<std::byte*>& buffers);
  bool map_all(Turn& turn, const Collective& op, std::vector<std::byte*>& buffers, bool& all_mapped);
  void reduce_payloads(const Collective& op, size_t offset, size_t count, const std::byte* own);
  SendFlow& send_to(std::vector<SendFlow>& out, int peer, const std::byte* from, size_t bytes, FlowStyle how);
  bool run_pipeline(Turn& turn, std::vector<SendFlow>& out, Flow* middle, std::vector<RecvFlow>& in);
  bool check_pair_counts(Turn& turn, const Collective& op);
  void read_factors();
  FlowStyle symmetric(size_t bytes) const { return {tuning_.chunk_symmetric(bytes), streaming_}; }
  FlowStyle rooted(size_t bytes) const { return {tuning_.chunk_rooted(bytes), streaming_}; }
  bool measure_distance(Turn& turn, size_t bytes);
  bool one_round(Turn& turn);

  const Segment& segment_;
  const PeerWatch& watch_;
  P2p& p2p_;
  const Patience patience_;
  const bool by_hosts_;
  const Tuning tuning_;
  const int rank_;
  const int nranks_;

  std::mutex mutex_;
  std::atomic<uint64_t> sequence_{0};  // of the last collective begun; written under mutex_
  size_t flat_position_ = 0;
  size_t bytes_unmeasured_ = SIZE_MAX;  // moved since the last look at how far apart the cores are; none yet
  uint64_t probe_rounds_ = 0;           // also a position: the same on all ranks
  bool streaming_;                      // what a rank writes for others is best not left in its own cache
  RingWriter shared_out_;
  std::vector<RingReader> shared_in_;  // by owner
  std::vector<RingWriter> pair_out_;   // by destination
  std::vector<RingReader> pair_in_;    // by source
  std::vector<int> others_;
  std::vector<int> just_;  // just_[r] == r: a span of one reader
  Imports imports_;
  std::vector<const void*> inputs_;
  std::vector<double> factors_;
};

// Whether each of the others has brought as much as is about to be read. On other hosts runs another build, perhaps.
template <typename BytesFrom>
bool Lane::came_with(const Turn& turn, BytesFrom bytes_from) {
  for (const int peer : others_) {
    if (payload_bytes(peer) >= bytes_from(peer)) continue;
    report_nonsense(turn, peer);
    return false;
  }
  return true;
}

}  // namespace hostccl
