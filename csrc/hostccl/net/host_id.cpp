#include "hostccl/net/host_id.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "base/fd.h"
#include "hostccl/net/siphash.h"

namespace hostccl::net {
namespace {

constexpr Bytes16 kNoSecret{};  // a hash, not a proof

}  // namespace

pycomms::Result<Bytes16> host_id(std::string_view pretended) {
  if (!pretended.empty()) return derive(kNoSecret, "pretended " + std::string(pretended));
  constexpr const char* kBootId = "/proc/sys/kernel/random/boot_id";
  const pycomms::Fd file(open(kBootId, O_RDONLY | O_CLOEXEC));
  char boot[64];
  const ssize_t got = file ? read(file.get(), boot, sizeof(boot)) : -1;
  if (got <= 0) return pycomms::Status::system(std::string("reading ") + kBootId);
  struct stat space;
  if (stat("/proc/self/ns/net", &space) != 0) return pycomms::Status::system("looking at /proc/self/ns/net");
  return derive(kNoSecret, "boot " + std::string(boot, static_cast<size_t>(got)) + " network namespace " +
                               std::to_string(space.st_dev) + " " + std::to_string(space.st_ino));
}

}  // namespace hostccl::net
