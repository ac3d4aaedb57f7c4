// How far the two directions of a connection have come, in positions of the segment. Private to the courier.
#pragma once

#include <array>
#include <atomic>
#include <mutex>
#include <optional>

#include "hostccl/courier.h"

namespace hostccl {

struct Courier::Outgoing {
  // Bytes that are sent from a caller's memory, until the kernel has them.
  struct HandOver {
    Outgoing* out;
    uint64_t end;
    std::atomic<bool> is_under_way;
  };

  std::mutex mutex;
  // All GUARDED_BY(mutex). For the peer alone:
  uint64_t staged = 0;
  uint64_t eager = 0;
  uint64_t bulk = 0;
  uint64_t envelopes = 0;
  TailsWire tails{};
  // For all ranks of its host, when it is this rank's port there:
  uint64_t headers = 0;
  uint64_t flats = 0;  // the last header whose flat bytes have been sent, ahead of it
  uint64_t shared = 0;
  Presence presence = Presence::kAbsent;
  bool has_fault = false;

  std::array<HandOver, 64> hand_overs{};
  size_t next_hand_over = 0;

  std::atomic<uint64_t> handed_over{0};
  // The connection took no more: progress() tries again.
  std::atomic<bool> is_held_up{false};
};

// What has come; the segment holds the same, but others can write there.
struct Courier::Incoming {
  struct Ring {
    uint64_t received = 0;
    bool is_open = false;  // a message for it is under way: the next one has to wait for its end, in whatever lane
  };
  Ring staged;
  Ring eager;
  Ring bulk;
  Ring shared;
  uint64_t envelopes = 0;
  uint64_t headers = 0;
  std::optional<FlatPiece> flat;  // for the next header
  bool flat_is_open = false;      // not all of it has come
  TailsWire tails{};
  Presence presence = Presence::kAbsent;
};

}  // namespace hostccl
