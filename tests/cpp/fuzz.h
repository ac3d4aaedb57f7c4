// Chance, for the programs that say random things: repeatable by a seed, which is printed. Must not know: to whom it is said.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "net_world.h"

namespace fuzz {

using Random = std::mt19937_64;
using Bytes = std::vector<std::byte>;

[[noreturn]] inline void die(const std::string& why) {
  std::fprintf(stderr, "FAILED: %s\n", why.c_str());
  std::_Exit(1);
}

// [SECONDS [SEED]]
struct Arguments {
  int seconds;
  uint64_t seed;
};
inline Arguments arguments(int argc, char** argv) {
  const Arguments given{argc > 1 ? std::atoi(argv[1]) : 3,
                        argc > 2 ? std::strtoull(argv[2], nullptr, 0) : std::random_device()()};
  std::printf("seed %llu, %d s\n", static_cast<unsigned long long>(given.seed), given.seconds);
  std::fflush(stdout);
  return given;
}

inline size_t up_to(Random& random, size_t limit) { return std::uniform_int_distribution<size_t>(0, limit)(random); }
inline bool one_in(Random& random, size_t n) { return up_to(random, n - 1) == 0; }

// One of: a flipped bit, a random byte, an extreme word, a cut, a piece doubled, a piece taken out, noise in between.
inline void mutate(Bytes& bytes, Random& random) {
  if (bytes.empty()) return;
  const size_t at = up_to(random, bytes.size() - 1);
  const size_t length = std::min(bytes.size() - at, up_to(random, 64));
  const auto begin = bytes.begin() + static_cast<ptrdiff_t>(at);
  switch (up_to(random, 6)) {
    case 0:
      bytes[at] ^= static_cast<std::byte>(1u << up_to(random, 7));
      break;
    case 1:
      bytes[at] = static_cast<std::byte>(random());
      break;
    case 2: {
      constexpr std::array<uint64_t, 6> kExtremes{0, 1, 0x7fffffff, 0xffffffff, ~uint64_t{0}, uint64_t{1} << 63};
      const uint64_t word = kExtremes[up_to(random, kExtremes.size() - 1)];
      std::memcpy(&bytes[at], &word, std::min<size_t>(one_in(random, 2) ? 4 : 8, bytes.size() - at));
      break;
    }
    case 3:
      bytes.resize(at);
      break;
    case 4: {
      const Bytes piece(begin, begin + static_cast<ptrdiff_t>(length));
      bytes.insert(begin, piece.begin(), piece.end());
      break;
    }
    case 5:
      bytes.erase(begin, begin + static_cast<ptrdiff_t>(length));
      break;
    case 6: {
      const Bytes noise = net_test::pattern(length, random());
      bytes.insert(begin, noise.begin(), noise.end());
      break;
    }
  }
}

}  // namespace fuzz
