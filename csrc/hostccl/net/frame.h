// Messages and the frames that carry them. A message is a kind, some numbers and a payload; it goes in one frame, or in
// frames of kChunk bytes, so that what is more urgent need not wait until a large one has passed. Frames of one lane are in
// order and belong to one message at a time; those of different lanes may come in between.
//
// Any thread; pure. Must not know: sockets, what a message means.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "hostccl/net/bytes.h"

namespace hostccl::net {

enum class Lane : uint8_t { kUrgent, kNormal, kBulk };  // the most urgent first
inline constexpr size_t kLanes = 3;

inline constexpr size_t kChunk = 512 << 10;            // a frame's payload at most
inline constexpr size_t kUrgentBytes = 8 << 10;        // of a message in the urgent lane
inline constexpr uint64_t kMessageBytes = 1ull << 48;  // of any
inline constexpr size_t kReasonBytes = 256;            // of a goodbye

struct Message {
  uint8_t kind = 0;  // the user's: 0 to kLastKind
  int32_t tag = 0;   // this and the next two are the user's
  uint64_t id = 0;
  uint64_t aux = 0;
  uint64_t bytes = 0;  // of the payload
  bool operator==(const Message&) const = default;
};

inline constexpr uint8_t kLastKind = 239;
// Of the link itself.
inline constexpr uint8_t kHeartbeatKind = 240;
inline constexpr uint8_t kByeKind = 241;  // the last of a connection; its payload says why, in words

struct FrameHeader {
  uint32_t magic;
  uint8_t version;
  uint8_t kind;
  uint8_t lane;
  uint8_t flags;    // kContinues
  uint32_t length;  // of this frame's payload
  int32_t tag;
  uint64_t id;
  uint64_t aux;
  uint64_t bytes;  // of the whole message's payload
};
static_assert(sizeof(FrameHeader) == 40 && std::has_unique_object_representations_v<FrameHeader>, "the wire format");

inline constexpr uint8_t kContinues = 1;  // not the first frame of its message

// The frame that carries the payload from `offset` on.
FrameHeader make_frame(Lane lane, const Message& message, uint64_t offset);
Message message_of(const FrameHeader& header);

// What one lane has received of the message that is under way.
struct LaneProgress {
  bool is_open = false;
  Message message;
  uint64_t offset = 0;
};

// What is wrong with a frame that comes after that, in words; empty when nothing is.
std::string check_frame(const FrameHeader& header, const LaneProgress& before);

}  // namespace hostccl::net
