# Sourced by the behaviour scripts: a pool with the guest's system as the image `system`, and machines that boot from
# exports of the server. The program is $QUINTET.
. "$(dirname "$0")/../cli/common.sh"
# How qemu computes. tcg is what every machine can do; kvm is faster where it works. That /dev/kvm can be opened does not
# show that it works: inside some virtual machines a guest never gets to its first instruction.
accelerator=${QUINTET_GUEST_ACCELERATOR:-tcg}
guest=
end_guest() {
    # Its qemu process; nothing in it can notice.
    [ -z "$guest" ] || kill -9 "$guest" 2>/dev/null || true
    [ -z "$guest" ] || wait "$guest" 2>/dev/null || true
    guest=
}
trap 'end_guest; finish' EXIT

requires qemu-system-x86_64 e2fsck qemu-img
system=$("$here/system.sh") || {
    code=$?
    [ $code -ne 77 ] || skip "$system"
    fail "the guest's system could not be made: $system"
}

# uri EXPORT
uri() {
    echo "nbd+unix:///$1?socket=$dir/nbd"
}

# Without no_timer_check a kernel takes a machine that is busy for one whose timer is broken.
# boot TASK ARGUMENT URI [QEMU OPTION...]: starts a machine as $guest; what it says is in $dir/serial.
boot() {
    local task=$1 argument=$2 disk=$3
    shift 3
    : >"$dir/serial"
    qemu-system-x86_64 -nodefaults -no-user-config -display none -no-reboot -m 192 -smp 1 \
        -accel "$accelerator" -cpu max -kernel "$system/vmlinuz" -initrd "$system/initrd" \
        -append "console=ttyS0 quiet panic=-1 no_timer_check guest.task=$task guest.arg=$argument" \
        -drive "file=$disk,format=raw,if=virtio,cache=writeback,discard=unmap" \
        -serial "file:$dir/serial" "$@" >"$dir/qemu" 2>&1 </dev/null &
    guest=$!
}

# heard TEXT [SECONDS]: waits until the machine says so.
heard() {
    local deadline=$((SECONDS + ${2:-400}))
    until grep -q -- "$1" "$dir/serial"; do
        kill -0 "$guest" 2>/dev/null || { grep -q -- "$1" "$dir/serial" && return; fail "the machine ended: $(machine)"; }
        [ $SECONDS -lt $deadline ] || fail "the machine never said \"$1\": $(machine)"
        sleep 0.1
    done
}

machine() {
    tail -n 25 "$dir/serial" "$dir/qemu"
}

# The number of the last file that the machine knows to be durable.
synced() {
    sed -n 's/.*guest: synced \([0-9]*\).*/\1/p' "$dir/serial" | tail -n 1
}

# The machine ends by itself.
guest_ended() {
    wait_until has_ended "$guest"
    wait "$guest" 2>/dev/null || true
    guest=
}

# sound_file_system EXPORT: after a crash the journal of ext4 is replayed, as by a mount; then nothing is wrong. The
# export itself is not changed.
sound_file_system() {
    local code=0
    qemu-img convert -f raw -O raw "$(uri "$1")" "$dir/checked.img"
    e2fsck -fy -E journal_only "$dir/checked.img" >"$dir/e2fsck" 2>&1 || code=$?
    [ $code -le 1 ] || fail "e2fsck cannot replay the journal: $(cat "$dir/e2fsck")"
    e2fsck -fn "$dir/checked.img" >"$dir/e2fsck" 2>&1 || fail "e2fsck: $(cat "$dir/e2fsck")"
    rm "$dir/checked.img"
}

# serve_system: a server with the image `system`.
serve_system() {
    [ -d "$pool" ] || {
        new_pool
        exits 0 q import "$system/disk.img" system
    }
    rm -f "$dir/nbd"
    start_server --nbd-socket "$dir/nbd" "$@"
}

# port_of SCHEME: the port that the server chose. It takes the same one when it is started again.
port_of() {
    sed -n "s|.*$1://127.0.0.1:\([0-9]*\).*|\1|p" "$dir/serve" | head -n 1
}
