#include "hostccl/net/frame.h"

#include <algorithm>

namespace hostccl::net {
namespace {

constexpr uint32_t kMagic = 0x6d666370;  // "pcfm"
constexpr uint8_t kFrameVersion = 1;

uint32_t length_at(const Message& message, uint64_t offset) {
  return static_cast<uint32_t>(std::min<uint64_t>(message.bytes - offset, kChunk));
}

std::string got(const char* what, uint64_t value, const std::string& expected) {
  return std::string("its ") + what + " is " + std::to_string(value) + ", expected " + expected;
}

std::string check_size(const FrameHeader& header) {
  if (header.kind == kHeartbeatKind && header.bytes != 0) return got("size as a heartbeat", header.bytes, "0");
  if (header.kind == kByeKind && header.bytes > kReasonBytes) {
    return got("size as a goodbye", header.bytes, "at most " + std::to_string(kReasonBytes));
  }
  if (static_cast<Lane>(header.lane) == Lane::kUrgent && header.bytes > kUrgentBytes) {
    return got("size in the urgent lane", header.bytes, "at most " + std::to_string(kUrgentBytes));
  }
  if (header.bytes > kMessageBytes) return got("size", header.bytes, "at most " + std::to_string(kMessageBytes));
  return "";
}

}  // namespace

FrameHeader make_frame(Lane lane, const Message& message, uint64_t offset) {
  FrameHeader header{};
  header.magic = kMagic;
  header.version = kFrameVersion;
  header.kind = message.kind;
  header.lane = static_cast<uint8_t>(lane);
  header.flags = offset == 0 ? 0 : kContinues;
  header.length = length_at(message, offset);
  header.tag = message.tag;
  header.id = message.id;
  header.aux = message.aux;
  header.bytes = message.bytes;
  return header;
}

Message message_of(const FrameHeader& header) { return {header.kind, header.tag, header.id, header.aux, header.bytes}; }

std::string check_frame(const FrameHeader& header, const LaneProgress& before) {
  if (header.magic != kMagic) return got("magic number", header.magic, std::to_string(kMagic));
  if (header.version != kFrameVersion) return got("version", header.version, std::to_string(kFrameVersion));
  if (header.kind > kByeKind) return got("kind", header.kind, "at most " + std::to_string(kByeKind));
  if (header.lane >= kLanes) return got("lane", header.lane, "less than " + std::to_string(kLanes));
  if ((header.flags & ~kContinues) != 0) return got("flags", header.flags, "0 or 1");
  if (std::string wrong = check_size(header); !wrong.empty()) return wrong;
  const bool continues = (header.flags & kContinues) != 0;
  if (continues != before.is_open) {
    return continues ? "it continues a message that never began" : "it begins a message before the last one's end";
  }
  if (continues && message_of(header) != before.message) return "it continues another message than the one before it";
  const uint32_t length = length_at(message_of(header), continues ? before.offset : 0);
  if (header.length != length) return got("length", header.length, std::to_string(length));
  return "";
}

}  // namespace hostccl::net
