#include "hostccl/residence.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <mutex>

#include "base/clock.h"
#include "base/fork.h"
#include "hostccl/doors.h"
#include "hostccl/net/socket.h"

namespace hostccl {
namespace {

using pycomms::Code;
using pycomms::Fd;
using pycomms::Status;

constexpr int64_t kLookElsewhereEvery = 250 * pycomms::kMillisecond;
constexpr size_t kHostDigits = 2 * sizeof(Bytes16);
constexpr size_t kTcpDigits = 2 * net::Address::kBytes;

struct Home {
  std::mutex mutex;
  net::Descriptor listener;  // GUARDED_BY(mutex), and what is below
  Whereabouts whereabouts{};

  static Home& of_process() { return pycomms::per_process<Home>(); }
};

int digit_of(char letter) {
  if (letter >= '0' && letter <= '9') return letter - '0';
  return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

template <size_t N>
bool read_hex(const char* text, std::array<uint8_t, N>& bytes) {
  for (size_t i = 0; i < N; ++i) {
    const int high = digit_of(text[2 * i]);
    const int low = digit_of(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    bytes[i] = static_cast<uint8_t>(high << 4 | low);
  }
  return true;
}

bool is_in_name(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') || letter == '-';
}

Status malformed() { return Status(Code::kInvalidArgument, "it is not an address of this library"); }

}  // namespace

pycomms::Result<Whereabouts> residence() {
  Home& home = Home::of_process();
  const std::lock_guard lock(home.mutex);
  if (home.listener) return home.whereabouts;
  Whereabouts made{};
  auto host = this_host();
  if (!host.is_ok()) return host.status();
  made.host = host.value();
  auto name = net::random_bytes16();
  if (!name.is_ok()) return name.status();
  auto listener = listen_here(name.value(), made.socket);
  if (!listener.is_ok()) return listener.status();
  home.listener = listener.take();
  home.whereabouts = made;
  return made;
}

pycomms::Result<Whereabouts> residence_on_network() {
  auto home = residence();
  if (!home.is_ok()) return home;
  Whereabouts whereabouts = home.value();
  if (auto endpoint = process_endpoint(); endpoint.is_ok()) whereabouts.tcp = endpoint.value()->address().encode();
  return whereabouts;
}

void let_visitors_go() {
  Home& home = Home::of_process();
  const std::lock_guard lock(home.mutex);
  if (!home.listener) return;
  while (Fd(accept4(home.listener.get(), nullptr, nullptr, SOCK_CLOEXEC))) {
  }
}

std::string to_text(const Whereabouts& whereabouts) {
  std::string text = net::to_hex(whereabouts.host) + '.' + net::to_hex(whereabouts.tcp) + '.';
  return text.append(whereabouts.socket, strnlen(whereabouts.socket, sizeof(whereabouts.socket)));
}

pycomms::Result<Whereabouts> whereabouts_of(const std::string& text) {
  constexpr size_t kName = kHostDigits + 1 + kTcpDigits + 1;
  Whereabouts found{};
  if (text.size() <= kName || text.size() - kName > sizeof(found.socket)) return malformed();
  if (text[kHostDigits] != '.' || text[kName - 1] != '.') return malformed();
  if (!read_hex(text.data(), found.host) || !read_hex(text.data() + kHostDigits + 1, found.tcp)) return malformed();
  if (!net::Address::decode(found.tcp).is_ok()) return malformed();
  if (!std::all_of(text.begin() + kName, text.end(), is_in_name)) return malformed();
  std::copy(text.begin() + kName, text.end(), found.socket);
  return found;
}

// --- Lifeline

Lifeline::Lifeline(const Whereabouts& there)
    : there_(there), is_here_([&] {
        auto here = this_host();
        return here.is_ok() && here.value() == there.host;
      }()) {}

bool Lifeline::has_ended() {
  if (!ended_) ended_ = is_here_ ? look_here() : look_elsewhere();
  return ended_;
}

// A connection that ends says only that the process has let its visitors go, or has ended.
bool Lifeline::look_here() {
  if (local_) {
    pollfd look{local_.get(), POLLIN, 0};
    if (poll(&look, 1, 0) == 0) return false;
    local_.reset();
  }
  auto connection = knock(there_.socket);
  if (connection.is_ok()) {
    local_ = connection.take();
    return false;
  }
  return connection.status().code() == Code::kPeerFailure;
}

bool Lifeline::look_elsewhere() {
  auto to = net::Address::decode(there_.tcp);
  if (!to.is_ok() || to.value().is_none()) return false;
  if (remote_) {
    pollfd look{remote_.get(), POLLOUT, 0};
    if (poll(&look, 1, 0) == 0) return false;
    int error = 0;
    socklen_t length = sizeof(error);
    getsockopt(remote_.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    remote_.reset();
    return error == ECONNREFUSED;
  }
  const int64_t now = pycomms::now_ns();
  if (now < look_at_ns_) return false;
  look_at_ns_ = now + kLookElsewhereEvery;
  auto connection = net::start_connecting(to.value(), 0, {});
  if (connection.is_ok()) remote_ = connection.take();
  return false;
}

}  // namespace hostccl
