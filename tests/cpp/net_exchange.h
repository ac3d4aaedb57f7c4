// Ranks that all send to all others, for the tests of meshes. Must not know: whether they are threads or processes.
#pragma once

#include <atomic>

#include "net_world.h"

namespace net_test {

inline Message message(uint64_t id, uint8_t kind = 1) {
  Message made;
  made.kind = kind;
  made.id = id;
  return made;
}

// Every rank sends to every other one and gets what it should, at its own thread; with sleeps in between.
inline void exchange_all(Node& node, int rounds, size_t bytes) {
  Mesh& mesh = *node.mesh;
  const int ranks = mesh.nranks();
  for (int round = 0; round < rounds; ++round) {
    std::atomic<int> sent{0};
    const auto data = pattern(bytes, static_cast<uint64_t>(mesh.rank() * 1000 + round));
    for (int to = 0; to < ranks; ++to) {
      if (to == mesh.rank()) continue;
      const Completion done{[](void* arg, bool) { ++*static_cast<std::atomic<int>*>(arg); }, &sent};
      must(mesh.link_to(to).send(Lane::kNormal, message(static_cast<uint64_t>(round)), {{}, data}, done));
    }
    const size_t expected = static_cast<size_t>(ranks - 1);
    const Deadline deadline = Deadline::after(kPatience);
    const auto step_or_sleep = [&] {
      if (!mesh.progress()) mesh.wait(deadline);
    };
    if (!eventually([&] { return sent == ranks - 1 && node.sink.count() >= expected; }, step_or_sleep)) {
      throw std::runtime_error("rank " + std::to_string(mesh.rank()) + " got " + std::to_string(node.sink.count()) +
                               " messages and sent " + std::to_string(sent.load()));
    }
    for (size_t i = 0; i < expected; ++i) {
      const Letter letter = node.sink.take();
      const auto round_sent = static_cast<uint64_t>(letter.peer * 1000) + letter.message.id;
      if (letter.payload != pattern(bytes, round_sent)) throw std::runtime_error("wrong bytes");
    }
  }
}

}  // namespace net_test
