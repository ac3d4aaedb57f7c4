// Windows over TCP: what every operation does, and what becomes of those who ask wrongly, stop, or die.

#include <cstring>
#include <limits>
#include <numeric>

#include "windows_world.h"

using namespace windows_test;

namespace {

WindowPiece whole(const WindowMemory& memory) { return {0, memory.bytes}; }
std::span<const WindowPiece> one(const WindowPiece& piece) { return {&piece, 1}; }

}  // namespace

TEST(put_and_get_of_all_sizes) {
  World world(2);
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{8}, size_t{1000}, size_t{16} << 10, size_t{100'001},
                             size_t{3} << 20, size_t{64} << 20}) {
    WindowMemory& memory = world[1].open(7, bytes);
    const auto data = pattern(bytes, bytes);
    const WindowPiece piece = whole(memory);
    must(world[0].origin->put(1, 7, one(piece), data.data(), nullptr, soon()));
    must(world[0].origin->flush(1, soon()));
    CHECK(std::ranges::equal(bytes_of(memory), data));
    std::vector<std::byte> back(bytes);
    must(world[0].origin->get(1, 7, one(piece), back.data(), soon()));
    CHECK(back == data);
    world[1].close(7);
  }
}

CHECK_MAIN()
