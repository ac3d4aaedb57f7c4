// What P2p holds for each peer: this rank's ends of the pair's rings, and the messages that are on their way.
// Private to P2p, under its mutex.
#pragma once

#include <vector>

#include "hostccl/bulk.h"
#include "hostccl/match_table.h"
#include "hostccl/p2p.h"

namespace hostccl {

struct P2p::Pending {
  P2pRequest request;
  uint64_t id = 0;
  int64_t posted_ns = 0;
  size_t moved = 0;
  uint64_t message = 0;           // of a matched receive: the peer's id of what it gets
  bool is_clear_to_send = false;  // not a user's request: our answer to a peer's request to send

  int64_t deadline_ns() const {
    const bool has_one = !is_clear_to_send && request.timeout_ns < pycomms::kForever;
    return has_one ? posted_ns + request.timeout_ns : kNoDeadline;
  }
  static uint64_t key(int peer, int tag) {
    return static_cast<uint64_t>(static_cast<uint32_t>(peer)) << 32 | static_cast<uint32_t>(tag);
  }
  uint64_t match_key() const { return key(request.peer, request.tag); }
};

// Receives that have met no message yet.
class P2p::Receives {
 public:
  void add(Queue& one) {
    if (one.front().request.peer == kAnySource) ++from_any_;
    table_.add(one);
  }

  // Moves the one that a message of this peer and tag is for into `one`: of those that ask for it, or take it from
  // anybody, the one that was posted first.
  bool take(int peer, int tag, Queue& one) {
    MatchTable<Pending>::Place place = table_.find(Pending::key(peer, tag));
    if (from_any_ != 0) {
      const auto any = table_.find(Pending::key(kAnySource, tag));
      if (any && (!place || any->id < place->id)) place = any;
    }
    return take(place, one);
  }
  bool take_by_id(uint64_t id, Queue& one) {
    return take(table_.find_if([id](const Pending& pending) { return pending.id == id; }), one);
  }

  template <typename Visit>
  void for_each_list(Visit visit) {
    table_.for_each_list(visit);
  }
  void clear() { *this = Receives(); }

 private:
  bool take(MatchTable<Pending>::Place place, Queue& one) {
    if (!place) return false;
    if (place->request.peer == kAnySource) --from_any_;
    table_.take(place, one);
    return true;
  }

  MatchTable<Pending> table_;
  size_t from_any_ = 0;
};

// A message that has come, with what came of its data.
struct P2p::Unexpected {
  EnvelopeKind kind;
  DataType type;
  int tag;
  uint64_t id;
  size_t bytes;
  const std::byte* data = nullptr;
  std::vector<std::byte> kept;
  size_t moved = 0;  // of a streamed one: how much is in `kept`

  uint64_t match_key() const { return static_cast<uint32_t>(tag); }
};

struct P2p::Channel {
  int peer;
  PairControl& out;  // this rank -> peer
  PairControl& in;   // peer -> this rank
  RingWriter eager_out;
  RingReader eager_in;
  BulkWriter bulk_out;
  BulkReader bulk_in;
  uint64_t envelopes_out = 0;
  uint64_t envelopes_in = 0;

  Queue outbox;              // envelopes that wait for room
  Queue asked;               // sent a request to send, wait for the clear
  Queue sending, receiving;  // through the bulk rings, in this order
  MatchTable<Unexpected> unexpected;

  Channel(const Segment& segment, int peer_rank, bool measures)
      : peer(peer_rank),
        out(segment.layout().pair(segment.base(), segment.rank(), peer_rank)),
        in(segment.layout().pair(segment.base(), peer_rank, segment.rank())),
        eager_out(out.eager_head, {&out.eager_tail},
                  segment.layout().eager_ring(segment.base(), segment.rank(), peer_rank),
                  segment.layout().eager_ring_bytes()),
        eager_in(in.eager_head, in.eager_tail, segment.layout().eager_ring(segment.base(), peer_rank, segment.rank()),
                 segment.layout().eager_ring_bytes()),
        bulk_out(out, segment.layout().bulk_ring(segment.base(), segment.rank(), peer_rank),
                 segment.layout().bulk_ring_bytes(), measures),
        bulk_in(in, segment.layout().bulk_ring(segment.base(), peer_rank, segment.rank()),
                segment.layout().bulk_ring_bytes()) {}
};

template <typename Visit>
void P2p::for_each_queue(Visit visit) {
  receives_->for_each_list(visit);
  for (const auto& channel : channels_) {
    visit(channel->outbox);
    visit(channel->asked);
    visit(channel->sending);
    visit(channel->receiving);
  }
}

}  // namespace hostccl
