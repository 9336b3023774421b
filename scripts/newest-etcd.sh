# Sourced by the scripts that run tests.
# The version of the newest etcd 3.5 that can be had; or why there is none, and 1.
newest_etcd() {
    local said
    said=$(scripts/etcd-newer.sh 2>&1 | tail -n 1) || { echo "${said#error: }"; return 1; }
    said=${said##*/}
    # Earlier ones lose data when they are killed under load (as in tests/src/etcd_stage/images.rs).
    [ "${said##*.}" -ge 20 ] || { echo "etcd $said is not new enough"; return 1; }
    echo "$said"
}
