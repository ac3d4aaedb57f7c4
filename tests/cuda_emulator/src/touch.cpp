#include "touch.h"

#include <signal.h>
#include <unistd.h>

#include <cstring>

#include "device.h"

namespace cuemu {
namespace {

struct sigaction previous;

// Only what is safe in a signal handler: the devices exist before it is installed.
void on_fault(int signal, siginfo_t* info, void*) {
  const Device* device = info->si_code > 0 ? device_of(info->si_addr) : nullptr;
  if (device != nullptr) {
    char text[] = "[cuda emulator] host code has dereferenced a pointer to the memory of cuda:?? \n";
    char* digits = std::strchr(text, '?');
    digits[0] = static_cast<char>('0' + device->index / 10);
    digits[1] = static_cast<char>('0' + device->index % 10);
    if (digits[0] == '0') {
      digits[0] = digits[1];
      digits[1] = ' ';
    }
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
  }
  sigaction(signal, &previous, nullptr);
  if (info->si_code <= 0) raise(signal);  // it was sent; a fault comes again by itself
}

}  // namespace

void explain_host_access() {
  struct sigaction ours{};
  ours.sa_sigaction = on_fault;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &ours, &previous);
}

}  // namespace cuemu
