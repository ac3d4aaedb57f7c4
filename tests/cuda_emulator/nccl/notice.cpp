#include "notice.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <functional>

#include "base/fd.h"
#include "base/futex.h"

namespace nccl_emulator {
namespace {

using pycomms::Code;
using pycomms::Deadline;
using pycomms::Fd;
using pycomms::Status;

constexpr int kLookMs = 20;

sockaddr_un address_of(const std::string& name, socklen_t& length) {
  // Two hashes: a name may be longer than an address.
  const std::string key = "nccl-emulator-" + std::to_string(std::hash<std::string>{}(name)) + "-" +
                          std::to_string(std::hash<std::string>{}("2" + name));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, key.data(), key.size());
  length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + key.size());
  return address;
}

// Nothing when the wait goes on.
Status check(const std::string& what, Deadline deadline, const std::atomic<bool>& cancelled) {
  if (cancelled.load(std::memory_order_acquire)) return {Code::kCancelled, what + ": aborted"};
  if (deadline.passed()) return {Code::kTimeout, what + ": not all members came in time"};
  return {};
}

}  // namespace

Status show_notice(const std::string& name, const UniqueId& id, int readers, Deadline deadline,
                   const std::atomic<bool>& cancelled) {
  Fd listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  socklen_t length;
  const sockaddr_un address = address_of(name, length);
  if (!listener || bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      listen(listener.get(), 4096) != 0) {
    return Status::system("showing the id of " + name);
  }
  for (int served = 0; served < readers;) {
    PYCOMMS_RETURN_IF_ERROR(check(name, deadline, cancelled));
    pollfd look{listener.get(), POLLIN, 0};
    if (poll(&look, 1, kLookMs) <= 0) continue;
    const Fd reader(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (reader && send(reader.get(), &id, sizeof(id), MSG_NOSIGNAL) == sizeof(id)) ++served;
  }
  return {};
}

pycomms::Result<UniqueId> read_notice(const std::string& name, Deadline deadline, const std::atomic<bool>& cancelled) {
  socklen_t length;
  const sockaddr_un address = address_of(name, length);
  std::atomic<uint32_t> never{0};
  for (;;) {
    if (Status over = check(name, deadline, cancelled); !over.is_ok()) return over;
    const Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (!socket) return Status::system("reading the id of " + name);
    UniqueId id;
    if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0) {
      pollfd look{socket.get(), POLLIN, 0};
      while (poll(&look, 1, kLookMs) == 0) {
        if (Status over = check(name, deadline, cancelled); !over.is_ok()) return over;
      }
      if (recv(socket.get(), &id, sizeof(id), 0) == sizeof(id)) return id;
    }
    pycomms::futex_wait(never, 0, pycomms::kMillisecond);  // the leader is not there yet
  }
}

}  // namespace nccl_emulator
