#include "hostccl/net/endpoint.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>

#include "base/fork.h"
#include "base/thread.h"

namespace hostccl::net {
namespace {

using pycomms::Code;
using pycomms::Deadline;
using pycomms::Fd;
using pycomms::Status;

constexpr uint64_t kListenerEvent = 0;
constexpr uint64_t kBellEvent = 1;
constexpr int kAcceptsInARow = 64;
constexpr int64_t kPauseWithoutDescriptors = 100 * pycomms::kMillisecond;
constexpr size_t kFormerTopics = 1024;

Status watch(const Descriptor& epoll, const Descriptor& what, uint64_t name) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = name;
  if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, what.get(), &event) != 0) return Status::system("epoll_ctl");
  return Status::ok();
}

}  // namespace

pycomms::Result<std::shared_ptr<Endpoint>> Endpoint::of_process(const Config& config) {
  struct Holder {
    uint32_t generation;
    std::shared_ptr<Endpoint> endpoint;
  };
  // Never destroyed, and no lock: that could be held by another thread while this one forks. A parent's endpoint stays
  // in its children as dead memory.
  static std::atomic<Holder*> current{nullptr};
  Holder* seen = current.load(std::memory_order_acquire);
  const uint32_t generation = pycomms::fork_generation();
  if (seen != nullptr && seen->generation == generation) return seen->endpoint;

  auto interfaces = list_interfaces();
  if (!interfaces.is_ok()) return interfaces.status();
  auto chosen = choose_interface(interfaces.value(), config.interfaces);
  if (!chosen.is_ok()) return chosen.status();
  SocketOptions socket;
  socket.unanswered_ns = config.host_timeout_ns;
  auto made = start({chosen.value(), socket, {}});
  if (!made.is_ok()) return made.status();
  auto holder = std::make_unique<Holder>(Holder{generation, made.value()});
  if (current.compare_exchange_strong(seen, holder.get(), std::memory_order_acq_rel)) return holder.release()->endpoint;
  return seen->endpoint;  // another thread was faster
}

pycomms::Result<std::shared_ptr<Endpoint>> Endpoint::start(const EndpointOptions& options) {
  auto listener = listen_on(options.at, options.socket);
  if (!listener.is_ok()) return listener.status();
  auto address = local_address(listener.value());
  if (!address.is_ok()) return address.status();
  Descriptor epoll(Fd(epoll_create1(EPOLL_CLOEXEC)));
  Descriptor bell(Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)));
  if (!epoll || !bell) return Status::system("opening the endpoint's descriptors");
  PYCOMMS_RETURN_IF_ERROR(watch(epoll, listener.value(), kListenerEvent));
  PYCOMMS_RETURN_IF_ERROR(watch(epoll, bell, kBellEvent));
  std::shared_ptr<Endpoint> endpoint(
      new Endpoint(options, address.value(), listener.take(), std::move(epoll), std::move(bell)));
  auto thread = pycomms::start_thread("pycomms-net", [raw = endpoint.get()] { raw->run(); });
  if (!thread.is_ok()) return thread.status();
  endpoint->thread_ = thread.take();
  return endpoint;
}

Endpoint::Endpoint(const EndpointOptions& options, const Address& address, Descriptor listener, Descriptor epoll,
                   Descriptor bell)
    : options_(options),
      address_(address),
      fork_generation_(pycomms::fork_generation()),
      listener_(std::move(listener)),
      epoll_(std::move(epoll)),
      bell_(std::move(bell)),
      reception_(epoll_, options_.limits, rejections_) {}

Endpoint::~Endpoint() {
  if (is_foreign()) {
    // The thread stayed in the parent; its handle can be neither joined nor dropped.
    static_cast<void>(new std::thread(std::move(thread_)));
    return;
  }
  stop_.store(true, std::memory_order_release);
  ring();
  if (thread_.joinable()) thread_.join();
}

bool Endpoint::is_foreign() const { return fork_generation_ != pycomms::fork_generation(); }

void Endpoint::ring() const { static_cast<void>(eventfd_write(bell_.get(), 1)); }

pycomms::Result<std::unique_ptr<Endpoint::Registration>> Endpoint::serve(Service service) {
  if (is_foreign()) return Status(Code::kInvalidState, "this endpoint belongs to the process that we were forked from");
  auto served = std::make_shared<Served>();
  served->service = std::move(service);
  const Bytes16& topic = served->service.topic;
  {
    std::lock_guard lock(mutex_);
    if (!services_.emplace(topic, served).second) {
      return Status(Code::kInvalidArgument, "this topic is served already");
    }
    std::erase_if(former_, [&](const auto& former) { return former.first == topic; });
    new_services_.push_back(served);
  }
  ring();
  return std::make_unique<Registration>(*this, served);
}

void Endpoint::end_service(const std::shared_ptr<Served>& served) {
  if (is_foreign()) return;
  {
    std::lock_guard lock(mutex_);
    services_.erase(served->service.topic);
    std::erase(new_services_, served);
    former_.emplace_back(served->service.topic, served->service.key);
    if (former_.size() > kFormerTopics) former_.pop_front();
  }
  served->gate.close();
  // The handler is ours and does not block.
  static_cast<void>(served->gate.wait_until_empty(Deadline::after(pycomms::kForever)));
}

void Endpoint::run() {
  std::array<epoll_event, 64> events;
  while (!stop_.load(std::memory_order_acquire)) {
    const int count = epoll_wait(epoll_.get(), events.data(), events.size(), sleep_ms(pycomms::now_ns()));
    const int64_t now = pycomms::now_ns();
    for (int i = 0; i < count; ++i) {
      const uint64_t name = events[static_cast<size_t>(i)].data.u64;
      if (name == kListenerEvent) {
        accept_some(now);
      } else if (name == kBellEvent) {
        eventfd_t rung;
        static_cast<void>(eventfd_read(bell_.get(), &rung));
      } else {
        reception_.hear(name, [&](Guest guest) { receive_hello(std::move(guest), now); });
      }
    }
    admit_early_ones();
    reception_.send_overdue_away(now);
    if (paused_until_ns_ != 0 && now >= paused_until_ns_) set_listening(true);
  }
}

int Endpoint::sleep_ms(int64_t now) const {
  int64_t until = reception_.next_deadline_ns();
  if (paused_until_ns_ != 0) until = std::min(until, paused_until_ns_);
  return pycomms::poll_ms(Deadline::at(until).left(now));
}

void Endpoint::accept_some(int64_t now) {
  for (int i = 0; i < kAcceptsInARow; ++i) {
    Accepted accepted = accept_from(listener_, options_.socket);
    switch (accepted.outcome) {
      case Accepted::Outcome::kTaken:
        reception_.welcome(std::move(accepted.socket), accepted.from, now);
        break;
      case Accepted::Outcome::kNobody:
        return;
      case Accepted::Outcome::kNoDescriptor:
        rejections_.note(Rejection::kSystem, accepted.from, "there is no descriptor left for it; it is asked to wait");
        paused_until_ns_ = now + kPauseWithoutDescriptors;
        return set_listening(false);
    }
  }
}

void Endpoint::set_listening(bool on) {
  if (on) paused_until_ns_ = 0;
  epoll_event event{};
  event.events = on ? uint32_t{EPOLLIN} : 0;
  event.data.u64 = kListenerEvent;
  static_cast<void>(epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listener_.get(), &event));
}

void Endpoint::receive_hello(Guest guest, int64_t now) {
  const Bytes16& topic = guest.hello.value.topic;
  std::shared_ptr<Served> served;
  const Bytes16* former_key = nullptr;
  Bytes16 former_copy;
  {
    std::lock_guard lock(mutex_);
    if (const auto found = services_.find(topic); found != services_.end()) {
      served = found->second;
    } else {
      const auto former = std::find_if(former_.begin(), former_.end(), [&](const auto& f) { return f.first == topic; });
      if (former != former_.end()) former_key = &(former_copy = former->second);
    }
  }
  if (served != nullptr) return introduce(std::move(guest), *served);
  if (former_key == nullptr) return reception_.keep(std::move(guest), now);
  if (!is_authentic(guest.hello.value, *former_key, guest.greeting)) {
    return rejections_.note(Rejection::kWrongKey, guest.from, "its hello does not prove that it knows the key");
  }
  rejections_.note(Rejection::kRefused, guest.from, "its topic is no longer served here");
  Arrival(std::move(guest.socket), guest.from, *former_key, guest.greeting, guest.hello.value).refuse(Verdict::kClosed);
}

void Endpoint::introduce(Guest guest, Served& served) {
  const Service& service = served.service;
  const Hello& hello = guest.hello.value;
  if (!is_authentic(hello, service.key, guest.greeting)) {
    return rejections_.note(Rejection::kWrongKey, guest.from, "its hello does not prove that it knows the key");
  }
  Arrival arrival(std::move(guest.socket), guest.from, service.key, guest.greeting, hello);
  if (hello.to != service.rank && hello.to != kAnyRank && service.rank != kAnyRank) {
    rejections_.note(
        Rejection::kRefused, guest.from,
        "it looks for rank " + std::to_string(hello.to) + ", this is rank " + std::to_string(service.rank));
    return arrival.refuse(Verdict::kWrongRank);
  }
  const pycomms::GateHolder inside(served.gate);
  if (!inside) return arrival.refuse(Verdict::kClosed);
  authenticated_.fetch_add(1, std::memory_order_relaxed);
  service.on_arrival(std::move(arrival));
}

void Endpoint::admit_early_ones() {
  std::vector<std::shared_ptr<Served>> fresh;
  {
    std::lock_guard lock(mutex_);
    fresh.swap(new_services_);
  }
  for (const auto& served : fresh) {
    for (Guest& guest : reception_.take_early(served->service.topic)) introduce(std::move(guest), *served);
  }
}

}  // namespace hostccl::net
