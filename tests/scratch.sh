# Sourced by the behaviour scripts, also those for sh.

# scratch SUITE: makes a directory below TMPDIR for this script alone, and prints it. No letter of its name is left to
# chance: patterns of scripts match whole paths too, and a random name matches one of them in a run of thirty.
scratch() {
    for number in $(seq 0 99); do
        mkdir -m 700 "${TMPDIR:-/tmp}/quintet-$1-$$-$number" 2>/dev/null || continue
        echo "${TMPDIR:-/tmp}/quintet-$1-$$-$number"
        return
    done
    echo "cannot make a directory in ${TMPDIR:-/tmp}: make room there, or set TMPDIR" >&2
    return 1
}
