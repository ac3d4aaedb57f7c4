// What couriers of two hosts say to each other: the kinds of messages, and their fixed payloads as bytes; and what is wrong
// with what another one says. Any thread; plain data, pure functions. Must not know: connections, segments.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include "hostccl/layout.h"

namespace hostccl {

// net::Message::kind. Bytes of rings and of the flat area lie at the same place on both sides.
enum class CourierKind : uint8_t {
  kState = 1,  // StateWire
  kFault,      // Failure
  kTails,      // TailsWire
  kFlat,       // of the writer's flat area; aux: offset
  kHeader,     // id: sequence; a HeaderSlot without its sequence
  kShared,     // of the writer's ring that all read; id: position
  kEnvelopes,  // id: how many there were before; Envelopes
  kEager,      // of a pair's rings; id: position
  kStaged,
  kBulk,
};

struct StateWire {
  uint32_t presence;
  int32_t pid;
  int32_t cores;
};

// How far the sender has read what the receiver has written.
struct TailsWire {
  uint64_t staged;
  uint64_t eager;
  uint64_t bulk;
  uint64_t envelopes;
  uint64_t shared;  // the slowest rank of the sender's host; only from the receiver's port there
  bool operator==(const TailsWire&) const = default;
};

static_assert(std::has_unique_object_representations_v<StateWire> &&
                  std::has_unique_object_representations_v<TailsWire>,
              "the wire format");

inline constexpr size_t kHeaderWireBytes = sizeof(HeaderSlot) - sizeof(uint64_t);
static_assert(offsetof(HeaderSlot, header) == sizeof(uint64_t));

// The flat bytes that have come for the next header.
struct FlatPiece {
  uint64_t offset;
  uint64_t bytes;
};

// What is wrong, in words; empty when nothing is.
std::string check_state(const StateWire& state, Presence before);
// before: the last ones. most: what may have been read by now.
std::string check_tails(const TailsWire& tails, const TailsWire& before, const TailsWire& most);
// flat: null when none have come.
std::string check_header(const HeaderSlot& slot, const FlatPiece* flat);

}  // namespace hostccl
