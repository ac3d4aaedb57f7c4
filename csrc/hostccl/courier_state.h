// How far the two directions of a connection have come, in positions of the segment. Private to the courier.
#pragma once

#include <mutex>

#include "hostccl/courier.h"

namespace hostccl {

struct Courier::Outgoing {
  std::mutex mutex;
  // All GUARDED_BY(mutex). For the peer alone:
  uint64_t staged = 0;
  uint64_t eager = 0;
  uint64_t bulk = 0;
  uint64_t envelopes = 0;
  TailsWire tails{};
  // For all ranks of its host, when it is this rank's port there:
  uint64_t headers = 0;
  uint64_t shared = 0;
  Presence presence = Presence::kAbsent;
  bool has_fault = false;

  // The connection took no more: progress() tries again.
  std::atomic<bool> is_held_up{false};
};

struct Courier::Incoming {
  // What has come; the segment holds the same, but others can write there.
  uint64_t staged = 0;
  uint64_t eager = 0;
  uint64_t bulk = 0;
  uint64_t envelopes = 0;
  uint64_t headers = 0;
  uint64_t shared = 0;
};

}  // namespace hostccl
