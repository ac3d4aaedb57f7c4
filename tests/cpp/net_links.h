// Links between two sockets, for their tests. Must not know: what is tested.
#pragma once

#include <sys/socket.h>

#include "net_world.h"

namespace net_test {

struct Count {
  int sent = 0, lost = 0;
  Completion completion() {
    return {[](void* arg, bool sent) { ++(sent ? static_cast<Count*>(arg)->sent : static_cast<Count*>(arg)->lost); },
            this};
  }
};

inline Message message(uint8_t kind, uint64_t id = 0) {
  Message made;
  made.kind = kind;
  made.id = id;
  return made;
}

inline Payload body(std::span<const std::byte> bytes) { return {{}, bytes}; }

inline constexpr SocketOptions kTiny{4096, 4096, pycomms::kSecond * 20};

// A link whose other side is a bare socket.
struct Raw {
  SocketPair sockets;
  Recorder sink;
  Link link{7, sink};
  Raw() { link.attach(std::move(sockets.a), sockets.at, {}); }
  void say(std::span<const std::byte> bytes) {
    CHECK_EQ(send_some(sockets.b, bytes), static_cast<ssize_t>(bytes.size()));
  }
  void say(const FrameHeader& header) { say(std::as_bytes(std::span(&header, 1))); }
  std::string end() {
    CHECK(eventually([&] { return link.has_ended(); }, [&] { link.progress(); }));
    return sink.end_of(7).text;
  }
};

}  // namespace net_test
