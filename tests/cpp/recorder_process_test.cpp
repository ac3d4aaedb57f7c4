// The flight recorder and the life of its process: killed, stuck, forked, signalled, and dumping on a thread of its own.
#include <sys/prctl.h>

#include <atomic>
#include <fstream>

#include "recorder/dumper.h"
#include "recorder_fixture.h"

using namespace recorder_test;

TEST(what_a_killed_process_wrote_is_complete) {
  for (int round = 0; round < 20; ++round) {
    const Folder folder;
    const std::string path = folder / "one.ring";
    Child child([&](auto tell) {
      auto made = Ring::create(options_at(path, 64));
      if (!made.is_ok()) _exit(1);
      const uint32_t group = made.value()->add_group(group_of("g"));
      for (uint32_t i = 1;; ++i) {
        made.value()->begin(consistent_issue(group, i), {}).end(State::kCompleted, 1);
        if (i == 200 + static_cast<uint32_t>(round)) tell();
      }
    });
    child.await();
    child.end_by(SIGKILL);
    const auto reader = open_reader(path);
    size_t torn = 0;
    const auto entries = reader->entries(&torn);
    CHECK(torn <= 1);
    CHECK_EQ(entries.size() + torn, size_t{64});
    for (const SeenEntry& e : entries) CHECK(is_consistent(e));
    for (size_t i = 1; i < entries.size(); ++i) CHECK_EQ(entries[i].sequence, entries[i - 1].sequence + 1);
    CHECK(entries.back().sequence >= 200);
  }
}

// As in a driver call that does not come back: no signal but SIGKILL reaches it, and no debugger.
TEST(the_record_of_a_process_in_an_uninterruptible_wait_is_readable) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return;  // sanitizers make a fork of a vfork, which does not wait
#endif
  const Folder folder;
  const std::string path = folder / "one.ring";
  Child child([&](auto) {
    auto made = Ring::create(options_at(path, 64));
    if (!made.is_ok()) _exit(1);
    const uint32_t group = made.value()->add_group(group_of("g"));
    for (uint32_t i = 1; i <= 5; ++i) {
      Issue issue = consistent_issue(group, i);
      issue.starts_now = true;
      const Entry entry = made.value()->begin(issue, {});
      if (i < 5) entry.end(State::kCompleted, 1);
    }
    // Until its child has ended or called exec, the kernel keeps a process that has called vfork().
    const pid_t me = getpid();
    if (vfork() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != me) _exit(0);  // it was killed before
      alarm(60);
      for (;;) pause();
    }
  });
  const std::string stat = "/proc/" + std::to_string(child.pid()) + "/stat";
  const Deadline deadline = Deadline::after(30 * kSecond);
  char state = '?';
  while (state != 'D' && !deadline.passed()) {
    std::string text;
    std::getline(std::ifstream(stat), text);
    if (const size_t at = text.rfind(')'); at != std::string::npos && at + 2 < text.size()) state = text[at + 2];
  }
  CHECK_EQ(state, 'D');
  const auto entries = open_reader(path)->entries();
  child.end_by(SIGKILL);
  CHECK_EQ(entries.size(), size_t{5});
  CHECK(entries[3].state == State::kCompleted);
  CHECK(entries[4].state == State::kRunning);
}

TEST(a_forked_child_records_nothing) {
  const Folder folder;
  set_process_ring(make_ring(folder / "one.ring", 8));
  Ring* ring = process_ring();
  const Entry entry = ring->begin(issue_of(0, 1), {});
  Child child([&](auto) {
    entry.end(State::kFailed, 5);
    _exit(process_ring() == nullptr ? 0 : 1);
  });
  const int status = child.end();
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  const auto entries = open_reader(folder / "one.ring")->entries();
  CHECK(entries[0].state == State::kIssued);
}

TEST(requests_are_served_by_a_thread_of_their_own) {
  const Folder folder;
  set_process_ring(make_ring(folder / "rank3.18.ring", 8));
  std::atomic<int> told{0};
  Dumper& dumper = Dumper::instance();
  dumper.set_up(folder.path(), 2, [&](const std::string&) { ++told; });
  dumper.request("a group has failed");
  CHECK(dumper.wait_until_idle(Deadline::after(20 * kSecond)));
  CHECK_EQ(told.load(), 1);
  CHECK(dump_on_signal(SIGUSR2).is_ok());
  raise(SIGUSR2);
  CHECK(dumper.wait_until_idle(Deadline::after(20 * kSecond)));
  CHECK_EQ(told.load(), 2);
  const auto reader = open_reader(folder / "rank3.18.2.dump");
  CHECK_EQ(reader->text(reader->header().reason), "signal " + std::to_string(SIGUSR2));
  dumper.request("one too many");
  CHECK(dumper.wait_until_idle(Deadline::after(20 * kSecond)));
  CHECK_EQ(told.load(), 2);
  dumper.set_up("", 0, nullptr);
}

TEST(a_forked_child_has_a_dumper_and_handlers_of_its_own) {
  if (check::kDetectsRaces) return;  // TSan does not let a child of several threads start one
  const Folder folder;
  set_process_ring(make_ring(folder / "parent.ring", 8));
  Dumper::instance().set_up(folder.path(), 2, nullptr);
  CHECK(dump_on_signal(SIGUSR2).is_ok());
  CHECK(note_signal(SIGTERM).is_ok());
  Child child([&](auto tell) {
    raise(SIGUSR2);  // it has no ring: nothing happens
    auto made = Ring::create(options_at(folder / "child.ring", 8));
    if (!made.is_ok()) _exit(1);
    set_process_ring(made.take());
    Dumper::instance().set_up(folder.path(), 2, nullptr);
    if (!dump_on_signal(SIGUSR2).is_ok() || !note_signal(SIGTERM).is_ok()) _exit(2);
    raise(SIGUSR2);
    if (!Dumper::instance().wait_until_idle(Deadline::after(30 * kSecond))) _exit(3);
    tell();
    for (;;) pause();
  });
  child.await();
  const int status = child.end_by(SIGTERM);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
  CHECK(std::filesystem::exists(folder / "child.1.dump"));
  CHECK(!std::filesystem::exists(folder / "parent.1.dump"));
  signal(SIGTERM, SIG_DFL);
  Dumper::instance().set_up("", 0, nullptr);
}

TEST(a_signal_is_noted_and_passed_on) {
  if (check::kDetectsRaces) return;  // TSan calls handlers outside of their signal: raising it again there is lost
  const Folder folder;
  const std::string path = folder / "one.ring";
  Child child([&](auto tell) {
    auto made = Ring::create(options_at(path, 8));
    if (!made.is_ok()) _exit(1);
    set_process_ring(made.take());
    if (!note_signal(SIGTERM).is_ok()) _exit(2);
    tell();
    for (;;) pause();
  });
  child.await();
  const int status = child.end_by(SIGTERM);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
  CHECK_EQ(open_reader(path)->header().signal.load(), SIGTERM);
  CHECK(!note_signal(0).is_ok());
}

CHECK_MAIN()
