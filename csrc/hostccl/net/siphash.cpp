#include "hostccl/net/siphash.h"

#include <cstring>

namespace hostccl::net {
namespace {

uint64_t load64(const void* from) {
  uint64_t value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

struct State {
  uint64_t v0, v1, v2, v3;

  explicit State(const Bytes16& key) {
    const uint64_t k0 = load64(key.data()), k1 = load64(key.data() + 8);
    v0 = k0 ^ 0x736f6d6570736575ull;
    v1 = k1 ^ 0x646f72616e646f6dull ^ 0xee;  // 0xee here and below: the variant of 128 bits
    v2 = k0 ^ 0x6c7967656e657261ull;
    v3 = k1 ^ 0x7465646279746573ull;
  }

  void rounds(int count) {
    for (int i = 0; i < count; ++i) {
      v0 += v1, v1 = std::rotl(v1, 13) ^ v0, v0 = std::rotl(v0, 32);
      v2 += v3, v3 = std::rotl(v3, 16) ^ v2;
      v0 += v3, v3 = std::rotl(v3, 21) ^ v0;
      v2 += v1, v1 = std::rotl(v1, 17) ^ v2, v2 = std::rotl(v2, 32);
    }
  }

  void absorb(uint64_t word) {
    v3 ^= word;
    rounds(2);
    v0 ^= word;
  }

  uint64_t digest() const { return v0 ^ v1 ^ v2 ^ v3; }
};

}  // namespace

Bytes16 siphash(const Bytes16& key, std::span<const std::byte> message) {
  State state(key);
  size_t at = 0;
  for (; at + 8 <= message.size(); at += 8) state.absorb(load64(message.data() + at));
  uint64_t last = uint64_t{message.size() & 0xff} << 56;
  for (size_t i = 0; at + i < message.size(); ++i)
    last |= uint64_t{std::to_integer<uint8_t>(message[at + i])} << (8 * i);
  state.absorb(last);

  state.v2 ^= 0xee;
  state.rounds(4);
  const uint64_t low = state.digest();
  state.v1 ^= 0xdd;
  state.rounds(4);
  const uint64_t high = state.digest();
  Bytes16 out;
  std::memcpy(out.data(), &low, 8);
  std::memcpy(out.data() + 8, &high, 8);
  return out;
}

}  // namespace hostccl::net
