// What one rank maps of the others' memory: right while it is used, and let go afterwards.

#include <unistd.h>

#include <vector>

#include "base/shared_memory.h"
#include "check.h"
#include "hostccl/shared_buffers.h"

using namespace hostccl;

namespace {

constexpr size_t kBytes = 8192;

struct Foreign {  // memory of "another" process: a file that nothing else maps here
  pycomms::Fd fd;
  SharedLocation location;

  explicit Foreign(char fill) {
    auto made = pycomms::create_shared_memory("test", kBytes);
    fd = made.take();
    const std::vector<char> data(kBytes, fill);
    CHECK_EQ(pwrite(fd.get(), data.data(), kBytes, 0), static_cast<ssize_t>(kBytes));
    CHECK(locate(fd.get(), 0, kBytes, location));
  }
};

}  // namespace

TEST(all_mappings_of_one_collective_stay_however_many_they_are) {
  std::vector<Foreign> all;
  for (int i = 0; i < 40; ++i) all.emplace_back(static_cast<char>(i));
  Imports imports;
  for (uint64_t collective = 1; collective < 4; ++collective) {
    imports.forget_unused(collective);
    std::vector<std::byte*> mapped;
    for (const Foreign& one : all) mapped.push_back(imports.map(getpid(), one.location, kBytes));
    for (size_t i = 0; i < mapped.size(); ++i) {
      CHECK(mapped[i] != nullptr);
      CHECK_EQ(static_cast<int>(mapped[i][kBytes - 1]), static_cast<int>(i));
    }
  }
}

TEST(a_region_that_does_not_fit_or_is_gone_is_not_mapped) {
  Foreign one('x');
  Imports imports;
  imports.forget_unused(1);
  SharedLocation beyond = one.location;
  beyond.offset = 100;
  CHECK(imports.map(getpid(), beyond, kBytes) == nullptr);
  SharedLocation other = one.location;
  other.inode += 1;
  CHECK(imports.map(getpid(), other, kBytes) == nullptr);
  CHECK(imports.map(getpid(), one.location, kBytes) != nullptr);
}

TEST(our_allocator_finds_pointers_into_its_regions) {
  auto memory = allocate_shared(kBytes);
  CHECK(memory.is_ok());
  auto* const begin = static_cast<std::byte*>(memory.value());
  CHECK(find_shared(begin + 64, kBytes - 64).fd >= 0);
  CHECK_EQ(find_shared(begin + 64, kBytes - 64).offset, uint64_t{64});
  CHECK_EQ(find_shared(begin + 64, kBytes).fd, -1);
  int local = 0;
  CHECK_EQ(find_shared(&local, sizeof(local)).fd, -1);
  CHECK(free_shared(begin));
  CHECK(!free_shared(begin));
}

CHECK_MAIN()
