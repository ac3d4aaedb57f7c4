// Whether memory may be written to, told without trying.
#include <sys/mman.h>
#include <unistd.h>

#include <vector>

#include "base/writable.h"
#include "check.h"

namespace {

using pycomms::is_writable;

TEST(what_a_program_uses_is_writable) {
  std::vector<char> heap(1 << 20);
  char local[100];
  CHECK(is_writable(heap.data(), heap.size()));
  CHECK(is_writable(local, sizeof(local)));
  CHECK(is_writable(nullptr, 0));
}

TEST(one_page_that_is_read_only_is_found) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  auto* const pages =
      static_cast<char*>(mmap(nullptr, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  CHECK(pages != MAP_FAILED);
  CHECK(is_writable(pages, 4 * page));
  CHECK_EQ(mprotect(pages + 2 * page, page, PROT_READ), 0);
  CHECK(is_writable(pages, 2 * page));
  CHECK(!is_writable(pages, 2 * page + 1));
  CHECK(!is_writable(pages + 2 * page, 1));
  CHECK(!is_writable(pages + 3 * page - 1, 1));
  CHECK(is_writable(pages + 3 * page, page));
  CHECK(is_writable(pages + 2 * page, 0));
  CHECK_EQ(munmap(pages, 4 * page), 0);
}

}  // namespace

CHECK_MAIN()
