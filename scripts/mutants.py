#!/usr/bin/env python3
"""Breaks one safety rule at a time and shows which test notices.

usage: scripts/mutants.py [--jobs N] [--markdown] [NAME...]   all, or only those named; exit 1 if one survives
       scripts/mutants.py --check                             only whether each mutant can still be made

Each mutant is one header, changed in one place and laid over the include roots, under which one test file is compiled
and run. What it compiles stays in build/mutants, so that a second run costs little.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "mutants"
ROOTS = ("include", "policies", "kernels")
RUN_LIMIT_S = 60  # a mutant may make a test wait for ever

CORE = "include/b10/core/"
SESSION = "include/b10/session/"
UCX = "policies/b10/transport/ucx/"

# rule that is broken: (header, what is there, what it becomes, how the title of a test that must fail begins)
MUTANTS = {
    # --- identity
    "tags are registered before anything is posted": (
        CORE + "lane_services.hpp", "if (Types::guards_identities && !registry_.reserve(all))",
        "if (Types::guards_identities && (registry_.reserve(all), false))", "S6 a tag collision"),
    "tags of a failed transfer sit out": (
        CORE + "tag_registry.hpp", "if (active_.erase(tags[i])) quarantined_.insert(tags[i]);",
        "active_.erase(tags[i]);", "a quarantined tag refuses the newcomer"),
    "a transfer id runs once": (
        CORE + "lane.hpp", "!p.seen.insert(id)",
        "(p.seen.insert(id), false)", "C09 a CONTROL"),
    "a retried transfer gets a new name for another incarnation": (
        CORE + "lane_services.hpp", "if (t.id == TransferId{} || t.named_for != incarnation)",
        "if (t.id == TransferId{})", "A transfer that is tried again on another incarnation"),
    "generations only go up": (
        CORE + "generation_ledger.hpp", "if (n <= last) return false;",
        "if (n < last) return false;", "a generation is used once"),
    "two nodes that call each other give out different generations": (
        UCX + "handshake.hpp", "if (next % 2 != parity) ++next;",
        "", "the domain of a pair is symmetric"),
    "a name belongs to one live node": (
        CORE + "links.hpp", "if (!p || !p->current || p->incarnation == remote.incarnation) return {};",
        "return {};", "C11 a second"),
    "a message carries the identity that is expected": (
        CORE + "receive_pipeline.hpp", "if (!h || *h != want)",
        "if (!h)", "A DATA message that carries another identity"),
    "a message has exactly the expected length": (
        CORE + "receive_pipeline.hpp", "op.bytes() != message_bytes(t, s) ||",
        "", "C68 a DATA"),
    "RESULT belongs to the transfer": (
        CORE + "send_pipeline.hpp", "if (!result || result->header != expected(t, MessageKind::result))",
        "if (!result)", "C50 a reply"),
    # --- what may be written
    "only granted spans are written": (
        CORE + "lane_services.hpp",
        "if (auto const* no = std::get_if<Error>(&verdict)) throw *no;",
        "if (std::get_if<Error>(&verdict)) { t.grant = "
        "std::make_shared<GrantRecord>(t.control.request, std::make_shared<GrantState>(), "
        "std::vector<LocalSpan>{}); return; }", "C09 destinations"),
    "a span is inside one granted interval to its last byte": (
        CORE + "intervals.hpp", "outer.begin <= inner.begin && inner.end <= outer.end;",
        "outer.begin <= inner.begin && inner.begin < outer.end;", "a span one byte past its pool"),
    "a grant for one peer is none for another": (
        CORE + "memory_map.hpp", "if (record->only_from && *record->only_from != peer) {",
        "if (false) {", "C86 a grant that is bound"),
    "a grant ends at its expiry": (
        CORE + "memory_map.hpp", "if (now >= record->expires) {",
        "if (false) {", "a grant ends at its expiry"),
    "a transfer does not outlive its grant": (
        CORE + "lane_services.hpp", "if (permission.expires < t.fence.deadline())",
        "if (false)", "C24 a transfer does not outlive"),
    "without a grant of its own a transfer is checked as a whole": (
        CORE + "lane_services.hpp", "return grants_->map().granted(t.control.request);",
        "return true;", "without a grant of its own"),
    "a transfer ends with the grant that it began under": (
        CORE + "lane_services.hpp", "if (t.grant->state != permission.grant)",
        "if (false)", "a grant that is revoked and given anew"),
    "descriptors make the plan that was announced": (
        CORE + "receive_pipeline.hpp", "(t.complete && t.chunks().size() != t.control.chunks))",
        "false)", "C09 a plan"),
    "descriptors sum to what was announced": (
        CORE + "descriptors.hpp", "return error_.empty() && spans_.size() == expected_ && bytes_left_ == 0;",
        "return error_.empty() && spans_.size() == expected_;", "Random bytes never yield a span"),
    "a span does not wrap around 2^64": (
        CORE + "descriptors.hpp", "return address - 1 < ~bytes;",
        "return address != 0;", "The unpacker refuses"),
    "a place lies in one block of the staging": (
        "policies/b10/staging/shared_host.hpp", "|| bytes > block_bytes_ - offset) return nullptr;",
        ") return nullptr;", "a place outside of the segment"),
    "a segment is the peer's own": (
        "policies/b10/staging/shared_segment.hpp",
        "if (std::memcmp(mapping->data(), o.secret.data(), detail::secret_digits) != 0)",
        "if (false)", "a segment is taken for another"),
    "overlapping destinations keep their order": (
        CORE + "plan.hpp", "if (!detail::overlap(destinations, found.destination)) {",
        "{", "A side that overlaps itself"),
    # --- proof of landing
    "a cancelled transfer is settled only when all of it has ended": (
        CORE + "aftermath.hpp", "if (how == Winding::under_way && self().now_ < w.until) return false;",
        "if (false) return false;", "A revoked grant quarantines"),
    "what does not come to rest is quarantined": (
        CORE + "aftermath.hpp", "if (how == Winding::settled)",
        "if (how != Winding::uncertain)", "What does not come to rest"),
    "ABORT waits for gathers into the receiver's views": (
        CORE + "wind_down.hpp", "!(copying && w.placed)",
        "true", "A view that a cancelled sender"),
    "a lost link leaves nothing to come to rest": (
        CORE + "lane.hpp", "this->quarantine_winding(e);\n    closing_endpoints_ = true;",
        "e.winding.clear();\n    closing_endpoints_ = true;", "A link that goes while"),
    "only a cancel may come to rest": (
        CORE + "aftermath.hpp", "(t.aborted && !t.unsent)",
        "false", "A sender that cannot say"),
    "sent chunks are taken off their sender": (
        CORE + "wind_down.hpp", "} while (receive_next(lane, e, w, s));",
        "} while (false);", "Chunks that had left"),
    "a scatter under way keeps its grant when its transfer is cancelled": (
        CORE + "wind_down.hpp", "if (lane.copies().query(s.event) == CopyState::pending) {",
        "if (false) {", "C26 memory of a cancelled transfer stays registered"),
    "RESULT waits for every copy event": (
        CORE + "receive_pipeline.hpp", "if (copy == CopyState::pending) return false;",
        "", "S2 RESULT does not leave"),
    "a failed scatter is no landing": (
        CORE + "receive_pipeline.hpp", "if (copy == CopyState::failed)",
        "if (false)", "A receiver whose scatter fails"),
    "a lost RESULT is unconfirmed, not failed": (
        CORE + "send_pipeline.hpp", "o.status = Status::unconfirmed;",
        "{}", "S8 with every"),
    "sources are free when the last gather has ended": (
        CORE + "send_pipeline.hpp", "if (++t.gathered == t.chunks.size())",
        "if (++t.gathered == 1)", "C24 sources are released"),
    "sources of a failed transfer are held until its last gather has ended": (
        CORE + "pen.hpp", "return copy.sources == sources; }))",
        "return copy.sources != sources; }))", "Sources of a failed transfer"),
    "no gather before the source-ready event": (
        CORE + "send_pipeline.hpp", "return s == CopyState::done;\n",
        "return true;\n", "C04 no gather starts before"),
    "a frame that was changed on its way is refused": (
        CORE + "frame_fields.hpp", "good = good && check == checksum(whole);",
        "good = good && check + 1 != 0;", "A frame with any one bit changed"),
    "what landed has the digest of what was gathered": (
        CORE + "receive_pipeline.hpp", "if (lane.digest(s) != s.digest)",
        "if (false)", "C84 a payload that changed"),
    # --- grants and pages
    "copy may start and tombstone check are one step": (
        CORE + "grant_state.hpp", "if (word & revoked_bit) return false;",
        "", "after revoke nothing"),
    "a scatter starts under a live grant only": (
        CORE + "receive_pipeline.hpp", "if (!t.grant->state->begin_copy())",
        "if (t.grant->state->begin_copy(); false)", "C01 no scatter"),
    "pages come back when no copy is active": (
        CORE + "grant_state.hpp", "return word_.load(std::memory_order_acquire) == revoked_bit;",
        "return (word_.load(std::memory_order_acquire) & revoked_bit) != 0;", "C01 a revoked grant"),
    "a revoked grant ends its transfers": (
        CORE + "lane.hpp", "r->fence.stop(Reason::cancelled, \"the grant was revoked\");",
        "{}", "C01 a revoked grant"),
    "a region with a live grant stays registered": (
        CORE + "memory_map.hpp", "if (r.state.quiescent() || !r.spans.touches(region)) return;",
        "return;", "a region cannot go while a grant"),
    # --- quarantine
    "what may still be touched leaves circulation": (
        CORE + "aftermath.hpp", "if (s.view) e.remains.views.push_back(self().staging_.quarantine(std::move(*s.view)));",
        "if (s.view) self().staging_.release(std::move(*s.view));", "S3 after a timeout"),
    "expired memory is dropped, not recycled": (
        CORE + "pen.hpp", "    if (e.remains.copies.empty())\n      c.staging.drop",
        "    if (true)\n      c.staging.recycle", "S4 expired"),
    "time is necessary": (
        "policies/b10/quarantine/ttl.hpp", "return age < ttl || pending ? Sentence::hold : Sentence::drop;",
        "return pending ? Sentence::hold : Sentence::drop;", "Ttl holds at 119.9 s"),
    "time is not sufficient": (
        "policies/b10/quarantine/ttl.hpp", "return age < ttl || pending ? Sentence::hold : Sentence::drop;",
        "return age < ttl ? Sentence::hold : Sentence::drop;", "Ttl keeps what is still pending"),
    "the pen obeys the sentence": (
        CORE + "pen.hpp", "if (copying || c.quarantine.sentence(age, copying) == Sentence::hold) {",
        "if (copying) {", "S3 after a timeout"),
    "the worker ends before the memory it can write": (
        CORE + "pen.hpp", "  collect_copies(e, c);\n  e.link.reset();\n",
        "  collect_copies(e, c);\n", "S4 the worker"),
    "memory that a copy may still use is abandoned, not dropped": (
        CORE + "pen.hpp", "    if (e.remains.copies.empty())\n      c.staging.drop",
        "    if (true)\n      c.staging.drop", "C77 C08 memory"),
    "a failed generation takes no new transfer": (
        CORE + "aftermath.hpp", "      self().links_.drain(e);\n",
        "", "S3 after a timeout"),
    "quarantine has a budget": (
        CORE + "lane_services.hpp", "if (g.quarantined + g.abandoned > quarantine_bytes_max_)",
        "if (false)", "C10 a spent"),
    "generations in quarantine have a budget": (
        CORE + "lane_services.hpp", "if (penned > config_.generations_penned_max)",
        "if (false)", "C10 generations in quarantine"),
    "what nobody wanted is sunk": (
        CORE + "pen.hpp", "c.metrics.unexpected_sunk.add(e.link->sink_unexpected());",
        "(void)e;", "C50 what nobody wanted"),
    "a freed place is never used again": (
        "policies/b10/staging/shared_memory.hpp", "    --blocks_;\n    (void)fallocate(",
        "    --blocks_;\n    next_ = place(block);\n    (void)fallocate(", "a freed block's place"),
    "a healthy transfer outlives its neighbours' generations": (
        CORE + "lane.hpp", "(how == LinkDown::bye || t->faults == 0)",
        "t->attempt == Attempt{}", "C17 failing neighbours"),
    # --- time and room
    "every wait has the deadline": (
        CORE + "fence.hpp", "if (stopped_ == Reason::none) return;",
        "if (stopped_ == Reason::none || stopped_ == Reason::deadline) return;", "S9 each wait"),
    "admission bounds what runs": (
        CORE + "admission.hpp", "if (bytes > small_ && !(first && fits)) {",
        "if (false) {", "Admission lets bytes up to the limit run"),
    "receives leave staging to sends": (
        "policies/b10/staging/block_pool.hpp", "return blocks_ == 1 ? 0 : blocks_ < 8 ? 1 : blocks_ / 8;",
        "return 0;", "receives leave the last eighth"),
    # --- strangers
    "a peer proves the key": (
        UCX + "meeting.hpp", "if (!ucx::equal_in_constant_time(frame.body, c.keys->proof(ucx::Role::client))) {",
        "if (false) {", "a peer with another key"),
    "bootstrap frames are authentic": (
        UCX + "frames.hpp", "!equal_in_constant_time(reader.take_bytes(code),",
        "(reader.take_bytes(code), false) && !equal_in_constant_time(reader.take_bytes(0),",
        "a secured stream takes no changed"),
    "control messages are authentic": (
        UCX + "control.hpp", "!equal_in_constant_time(std::as_bytes(std::span(&code, 1)),",
        "false && !equal_in_constant_time(std::as_bytes(std::span(&code, 1)),",
        "an inbox takes only the next authentic frame"),
    "nobody is asked for an endpoint before it is connected": (
        UCX + "meeting.hpp", "!link.knocked && link.worker->sink_unexpected() != 0;",
        "!link.knocked;", "a peer that is killed at any step"),
    "a worker that gave up while connecting is not progressed": (
        UCX + "worker.hpp", "if (!wired_) return;",
        "", "a first message that comes after"),
    "a receive matches its whole tag": (
        UCX + "worker.hpp", "to_integer(tag), ~ucp_tag_t{0}, &p",
        "to_integer(tag), ucp_tag_t{0xffff}, &p", "C15 a receive"),
    # --- sessions
    "an aborted task waits for nothing and writes nothing": (
        SESSION + "tx_leg.hpp", "if (stopped_) {",
        "if (false) {", "R1 "),
    "a task owns its pages from its submission on": (
        SESSION + "states.hpp", "return o == Ownership::not_submitted || o == Ownership::done;",
        "return o != Ownership::admitted;", "R4 "),
    "a retired request id stays refused": (
        SESSION + "session_node.hpp", "if (arrivals_.is_retired(request) ||",
        "if (", "R27 "),
    "the receiver is sent every block that it waits for": (
        SESSION + "tx_leg.hpp", "if (slice.is_last) require_covered();",
        "", "A receiver never takes a hole"),
    "an AUX record names whose it is": (
        SESSION + "aux_record.hpp", "if (!ours || !in.ok()) return std::nullopt;",
        "if (!in.ok()) return std::nullopt;", "AUX is told by its identity"),
    "one failed chunk fails the request": (
        SESSION + "tx_session.hpp",
        "if (leg->failure()) return end(failed_, TxLeg<A>::Tell::failed, *leg->failure());",
        "(void)0;", "R26 "),
    "landed is what this node has copied": (
        SESSION + "rx_session.hpp", "return due == 0 || landed_ || (",
        "return due == 0 || landed_ || true || (", "A lost RESULT"),
}


def what_is_broken(mutant):
    """Why the mutant cannot be made; empty if it can."""
    file, old, _, title = mutant
    places = (ROOT / file).read_text().count(old) if (ROOT / file).exists() else 0
    if places != 1:
        return f"{file} holds its text {places} times"
    files = test_files(title)
    if len(files) != 1:
        return f'{len(files)} test files have a title that begins with "{title}"'
    return ""


def changed_header(rule, mutant):
    """The folder of include roots that holds nothing but the changed header."""
    file, old, new = mutant[:3]
    overlay = BUILD / re.sub(r"\W+", "_", rule)
    for root in ROOTS:  # an earlier version of this mutant may have changed another header
        shutil.rmtree(overlay / root, ignore_errors=True)
    path = overlay / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text((ROOT / file).read_text().replace(old, new))
    return overlay


def test_files(title):
    """Files with a test whose title begins so: must be one."""
    found = []
    for path in sorted((ROOT / "tests").rglob("*_test.cpp")):
        cases = re.findall(r'TEST_CASE(?:_SIG)?\(\s*"((?:[^"\\]|\\.|"\s*")*)"', path.read_text())
        if any(re.sub(r'"\s*"', "", case).startswith(title) for case in cases):
            found.append(path)
    return found


def compiler():
    cache = [shutil.which("ccache")] if shutil.which("ccache") else []
    return [*cache, os.environ.get("CXX", "g++"), "-std=c++20", "-O0", "-w", "-DB10_WITH_UCX",
            "-DCATCH_CONFIG_RUNTIME_STATIC_REQUIRE"]


def compile_test(test, overlay, program):
    includes = [f"-I{overlay / root}" for root in ROOTS] if overlay else []
    includes += [f"-I{ROOT / root}" for root in (*ROOTS, "tests")]
    source = test or ROOT / "tests/support/main.cpp"
    done = subprocess.run([*compiler(), *includes, "-c", source, "-o", f"{program}.o"], capture_output=True, text=True)
    if done.returncode != 0 or not test:
        return done.stderr
    libraries = ["-lucp", "-lucs", "-lcrypto", "-lzmq"]
    done = subprocess.run(["g++", f"{program}.o", BUILD / "main.o", "-Wl,--as-needed", *libraries, "-o", program],
                          capture_output=True, text=True)
    return done.stderr if done.returncode else ""


def failed_tests(program, *which):
    """Titles of the tests that fail, or in which the program crashes or does not go on."""
    try:
        done = subprocess.run([program, "-r", "xml", *which], capture_output=True, text=True, timeout=RUN_LIMIT_S,
                              cwd=BUILD)
        report = done.stdout
    except subprocess.TimeoutExpired as late:
        report = (late.stdout or b"").decode()
    failed = []
    for part in report.split("<TestCase ")[1:]:
        # An exception escapes from nothing: a test without its result is the one that ended the program.
        if 'success="true"' not in part.split("<OverallResult")[-1] or "<OverallResult" not in part:
            failed.append(re.search(r'name="([^"]*)"', part)[1].replace("&quot;", '"').replace("&amp;", "&"))
    return failed


def judge(rule, mutant):
    """(is it killed by its named test, what to say, seconds)"""
    begin = time.monotonic()
    if broken := what_is_broken(mutant):
        return False, f"BROKEN MUTANT: {broken}", 0
    title = mutant[3]
    overlay = changed_header(rule, mutant)
    errors = compile_test(test_files(title)[0], overlay, overlay / "test")
    if errors:
        return False, "BROKEN MUTANT: it does not compile\n" + errors[:2000], time.monotonic() - begin
    named = failed_tests(overlay / "test", title + "*")
    if named:
        return True, f'"{named[0]}"', time.monotonic() - begin
    others = failed_tests(overlay / "test")
    seconds = time.monotonic() - begin
    return False, f'KILLED BY ANOTHER TEST: "{others[0]}"' if others else "SURVIVED", seconds


def main():
    arguments = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1])
    arguments.add_argument("--check", action="store_true")
    arguments.add_argument("--markdown", action="store_true")
    arguments.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments.add_argument("rules", nargs="*")
    options = arguments.parse_args()
    wanted = {rule: m for rule, m in MUTANTS.items() if not options.rules or any(r in rule for r in options.rules)}
    if options.check:
        broken = [f"{rule}: {why}" for rule, m in wanted.items() if (why := what_is_broken(m))]
        print("\n".join(broken) or f"mutants: all {len(wanted)} can be made")
        return 1 if broken else 0
    BUILD.mkdir(parents=True, exist_ok=True)
    compile_test(None, None, BUILD / "main")
    begin = time.monotonic()
    killed = 0
    if options.markdown:
        print("| rule | broken in | test that notices |\n|---|---|---|")
    with concurrent.futures.ThreadPoolExecutor(max(1, options.jobs)) as pool:
        for rule, (good, text, seconds) in zip(wanted, pool.map(lambda item: judge(*item), wanted.items())):
            killed += good
            if options.markdown:
                print(f"| {rule} | `{wanted[rule][0].split('b10/')[1]}` | {text} |", flush=True)
            else:
                print(f"{rule:60} {text if not good else 'killed by ' + text} ({seconds:.0f} s)", flush=True)
    print(f"\n{killed} of {len(wanted)} mutants killed by the test named for them in {time.monotonic() - begin:.0f} s")
    return 0 if killed == len(wanted) else 1


if __name__ == "__main__":
    sys.exit(main())
