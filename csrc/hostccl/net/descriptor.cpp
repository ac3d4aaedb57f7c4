#include "hostccl/net/descriptor.h"

#include <pthread.h>

#include <mutex>
#include <utility>

namespace hostccl::net {

// All that is open. Never destroyed: threads may outlive main.
struct Descriptor::ForkTable {
  std::mutex mutex;  // held across fork(), so that the list is whole in the child
  Descriptor* first = nullptr;

  static ForkTable& instance() {
    static auto* table = [] {
      pthread_atfork([] { instance().mutex.lock(); }, [] { instance().mutex.unlock(); }, [] { instance().in_child(); });
      return new ForkTable();
    }();
    return *table;
  }

  void in_child() {
    for (Descriptor* each = first; each != nullptr;) {
      Descriptor* next = each->after_;
      ::close(std::exchange(each->fd_, -1));
      each->before_ = each->after_ = nullptr;
      each = next;
    }
    first = nullptr;
    mutex.unlock();
  }
};

Descriptor::Descriptor(pycomms::Fd fd) {
  if (!fd) return;
  std::lock_guard lock(ForkTable::instance().mutex);
  link();
  // Takes the number over: from here on only this object closes it.
  fd_ = fd.release();
}

Descriptor::Descriptor(Descriptor&& other) noexcept { *this = std::move(other); }

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this == &other) return *this;
  reset();
  if (!other) return *this;
  std::lock_guard lock(ForkTable::instance().mutex);
  other.unlink();
  link();
  fd_ = std::exchange(other.fd_, -1);
  return *this;
}

void Descriptor::reset() {
  if (fd_ < 0) return;
  std::lock_guard lock(ForkTable::instance().mutex);
  unlink();
  ::close(std::exchange(fd_, -1));
}

void Descriptor::link() {
  ForkTable& table = ForkTable::instance();
  after_ = table.first;
  before_ = nullptr;
  if (after_ != nullptr) after_->before_ = this;
  table.first = this;
}

void Descriptor::unlink() {
  ForkTable& table = ForkTable::instance();
  (before_ != nullptr ? before_->after_ : table.first) = after_;
  if (after_ != nullptr) after_->before_ = before_;
  before_ = after_ = nullptr;
}

}  // namespace hostccl::net
