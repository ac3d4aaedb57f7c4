// What the owner of links is told: what comes in, and that a link has ended.
//
// Called on whichever thread moves the link on, one call at a time for each link, with no lock held; must not block. From
// within a call the same link may be sent on, closed and aborted. Must not know: sockets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "hostccl/net/frame.h"

namespace hostccl::net {

inline constexpr size_t kInlineBytes = 16 << 10;  // a payload that the link itself can hold

// Where a payload goes.
struct Place {
  enum class Kind : uint8_t {
    kMemory,   // to `memory`, which has room for it and stays valid until it is delivered or the link has ended
    kInline,   // into the link's own buffer; at most kInlineBytes
    kDiscard,  // read, not kept
    kRefuse,   // nobody expects it: the link ends
  };
  Kind kind = Kind::kRefuse;
  std::byte* memory = nullptr;

  static Place at(std::byte* memory) { return {Kind::kMemory, memory}; }
  static Place in_line() { return {Kind::kInline, nullptr}; }
  static Place discard() { return {Kind::kDiscard, nullptr}; }
  static Place refuse() { return {Kind::kRefuse, nullptr}; }
};

enum class EndKind : uint8_t {
  kOrderly,      // the peer said goodbye, or had left before there was a connection
  kLost,         // the connection ended without a word: the process, its host or the network is gone
  kProtocol,     // the peer sent what it must not
  kUnreachable,  // there never was a connection
  kLocal,        // we ended it
};

struct LinkEnd {
  EndKind kind = EndKind::kLocal;
  std::string text;  // names the peer and what happened
};

class Sink {
 public:
  virtual ~Sink() = default;
  // A message has begun to come in.
  virtual Place place(int peer, const Message& message) = 0;
  // It is all there. `payload` is where it was put; for kInline it is valid during the call only, for kDiscard empty.
  virtual void delivered(int peer, const Message& message, std::span<const std::byte> payload) = 0;
  // Once for each link; nothing comes after it, and nobody touches the places of messages that did not come whole.
  virtual void ended(int peer, const LinkEnd& end) = 0;
};

}  // namespace hostccl::net
