#include "recorder/dump.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "base/fd.h"
#include "recorder/reader.h"

namespace pycomms::recorder {
namespace {

constexpr int kMostNames = 1000;

Status write_all(const Fd& fd, const std::string& path, const std::byte* data, size_t size) {
  while (size > 0) {
    const ssize_t n = write(fd.get(), data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Status::system("cannot write " + path);
    data += n;
    size -= static_cast<size_t>(n);
  }
  return {};
}

// Each slot as it was at one moment. One that is being written all the time is marked as such.
std::vector<std::byte> copy_of(const Ring& ring) {
  std::vector<std::byte> copy(ring.data(), ring.data() + ring.used());
  const auto& header = *reinterpret_cast<const Header*>(ring.data());
  const auto* from = reinterpret_cast<const Slot*>(ring.data() + header.slots_at);
  auto* to = reinterpret_cast<Slot*>(copy.data() + header.slots_at);
  for (uint32_t i = 0; i < header.slot_capacity; ++i) {
    if (!copy_slot(from[i], &to[i])) to[i].version_behind.store(0, std::memory_order_relaxed);
  }
  return copy;
}

std::string stem_of(const std::string& path) {
  const size_t begin = path.rfind('/') == std::string::npos ? 0 : path.rfind('/') + 1;
  const size_t dot = path.rfind(".ring");
  return path.substr(begin, dot == std::string::npos || dot < begin ? std::string::npos : dot - begin);
}

}  // namespace

Status dump(Ring& ring, const std::string& folder, const std::string& reason, std::string* path) {
  const std::string stem = folder + "/" + stem_of(ring.path());
  uint32_t number = ring.note_dump(reason);
  const std::string draft = stem + "." + std::to_string(number) + ".part";
  unlink(draft.c_str());  // one that a process with our number has left, or a link to somebody's file
  Fd fd(open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) return Status::system("cannot make " + draft);
  const std::vector<std::byte> copy = copy_of(ring);
  Status written = write_all(fd, draft, copy.data(), copy.size());
  if (written.is_ok() && fsync(fd.get()) != 0) written = Status::system("cannot write " + draft);
  // RENAME_NOREPLACE is not everywhere; a link fails where the name is taken.
  for (int tries = 0; written.is_ok() && tries < kMostNames; ++tries, ++number) {
    *path = stem + "." + std::to_string(number) + ".dump";
    if (link(draft.c_str(), path->c_str()) == 0) break;
    if (errno != EEXIST || tries + 1 == kMostNames) written = Status::system("cannot make " + *path);
  }
  unlink(draft.c_str());
  return written;
}

}  // namespace pycomms::recorder
