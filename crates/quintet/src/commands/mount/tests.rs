//! Tests of a pool's file system without a kernel.

use crate::commands;
use fuse::{Errno, FileSystem, FixedVolumes, Handle, Node, NodeId, SeekTarget};
use jiff::tz::TimeZone;
use media::{Media, Syncing};
use server::directories::Directories;
use server::mount::{Disks, FilesSource, PoolFiles, SnapshotList, Which};
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use store::{OpenMode, Pool};
use terminal::exit::Exit;
use volume::{MemoryVolume, RequestContext};

fn quintet(pool: &Path, arguments: &[&str]) {
    let own = ["quintet".into(), "-q".into(), "-r".into(), pool.into()];
    let arguments = arguments.iter().map(OsString::from);
    let exit = commands::run(own.into_iter().chain(arguments));
    assert_eq!(exit, Exit::Done);
}

fn opened(path: &Path) -> Arc<Pool> {
    let media = Media::local(path, Syncing::Inline);
    Arc::new(Pool::open(media, None, OpenMode::Read, 64 << 20).unwrap())
}

fn files(pool: &Arc<Pool>, directory_bytes_max: usize) -> PoolFiles {
    let undamaged = Box::new(|error: &store::StoreError| panic!("{error}"));
    let snapshots = SnapshotList::new(Arc::clone(pool), Box::new(|_| true), undamaged);
    let snapshots = Arc::new(snapshots);
    let volume = Arc::new(MemoryVolume::new(1 << 20));
    let reader = Arc::clone(pool.reader());
    let source = FilesSource {
        images: Arc::new(Disks::new(
            Which::Images,
            Arc::clone(&snapshots),
            None,
            "/mnt",
        )),
        snapshots,
        volumes: Arc::new(FixedVolumes::default().with("disk", volume)),
        zone: TimeZone::UTC,
        directories: Arc::new(Directories::new(reader, directory_bytes_max)),
        mount: "/mnt".to_owned(),
        classifiers: None,
    };
    let tell = Box::new(|path: &[u8], error: &store::StoreError| panic!("{path:?}: {error}"));
    PoolFiles::new(source, tell)
}

/// Returns every node on the way to `path`.
fn walk(files: &PoolFiles, path: &str) -> Result<Vec<Node>, Errno> {
    let mut at = NodeId::ROOT;
    let mut nodes = Vec::new();
    for name in path.split('/').filter(|name| !name.is_empty()) {
        let found = files.lookup(at, name.as_bytes())?;
        if found.node == NodeId::default() {
            return Err(Errno::NOENT);
        }
        at = found.node;
        nodes.push(found);
    }
    Ok(nodes)
}

#[test]
fn nodes_outlive_directories_in_memory_and_places_do_not_outlive_nodes() {
    let top = tempfile::tempdir().unwrap();
    let (source, pool_path) = (top.path().join("src"), top.path().join("pool"));
    for directory in ["a", "b/c", "d"] {
        std::fs::create_dir_all(source.join(directory)).unwrap();
        for name in ["one", "two"] {
            let path = source.join(directory).join(name);
            std::fs::write(path, format!("{directory}/{name}")).unwrap();
        }
    }
    std::fs::hard_link(source.join("a/one"), source.join("d/other")).unwrap();
    quintet(&pool_path, &["init", "--no-encryption"]);
    quintet(&pool_path, &["backup", source.to_str().unwrap()]);
    let pool = opened(&pool_path);
    // A cache for all directories, and one for a single directory.
    for directory_bytes_max in [1 << 20, 1] {
        let files = files(&pool, directory_bytes_max);
        let empty = files.places();
        let link = walk(&files, "snapshots/latest").unwrap()[1].node;
        let name = String::from_utf8(files.read_link(link).unwrap()).unwrap();
        let base = format!("snapshots/{name}{}", source.display());
        let mut held = Vec::new();
        for file in ["a/one", "b/c/two", "d/other", "b/c/one", "a/two", "d/one"] {
            held.push((file, walk(&files, &format!("{base}/{file}")).unwrap()));
        }
        for _ in 0..2 {
            for (file, nodes) in &held {
                let node = nodes.last().unwrap();
                let (attributes, _) = files.attributes(node.node).unwrap();
                assert_eq!(attributes, node.attributes);
                let real = source.join(file).metadata().unwrap();
                assert_eq!(attributes.size_bytes, real.len());
                assert_eq!(
                    (attributes.mode, attributes.links),
                    (real.mode(), real.nlink() as u32)
                );
                let handle = files.open(node.node, false).unwrap().handle;
                let mut bytes = [0; 16];
                let context = RequestContext::default();
                let len = files
                    .read(context, node.node, handle, 0, &mut bytes)
                    .unwrap();
                let expected = std::fs::read(source.join(file)).unwrap();
                assert_eq!(bytes[..len], expected);
                files.release(node.node, handle);
                let closed = files.read(context, node.node, handle, 0, &mut bytes);
                assert_eq!(closed, Err(Errno::BADF));
            }
        }
        let inode = |n: usize| held[n].1.last().unwrap().attributes.inode;
        assert_eq!(inode(0), inode(2), "names of one file");
        assert_ne!(inode(0), inode(5));
        assert!(files.places() > empty);
        let nodes: Vec<NodeId> = held
            .iter()
            .flat_map(|(_, nodes)| nodes)
            .map(|n| n.node)
            .collect();
        for node in &nodes {
            files.forget(*node, 1);
        }
        // The kernel still knows the link.
        assert_eq!(files.places(), empty + 1);
        assert_eq!(
            files.attributes(nodes[nodes.len() - 1]).err(),
            Some(Errno::STALE)
        );
        let again = walk(&files, &format!("{base}/a/one")).unwrap();
        assert_eq!(again.last().unwrap().attributes.inode, inode(0));
        assert!(
            !nodes.contains(&again.last().unwrap().node),
            "a number is used again"
        );
        let file = again.last().unwrap().node;
        assert_eq!(files.open(file, true).err(), Some(Errno::ROFS));
        assert_eq!(files.lookup(file, b"x").err(), Some(Errno::NOTDIR));
        assert_eq!(
            walk(&files, &format!("{base}/a/none")).err(),
            Some(Errno::NOENT)
        );
        assert_eq!(files.read_link(file).err(), Some(Errno::INVAL));
    }
}

#[test]
fn volumes_stand_beside_snapshots() {
    let top = tempfile::tempdir().unwrap();
    let path = top.path().join("pool");
    quintet(&path, &["init", "--no-encryption"]);
    let pool = opened(&path);
    let files = files(&pool, 1 << 20);
    let found = walk(&files, "volumes/disk").unwrap();
    let [directory, disk] = found[..] else {
        panic!("{found:?}");
    };
    let (attributes, _) = files.attributes(directory.node).unwrap();
    assert_eq!(attributes.inode, directory.attributes.inode);
    let handle = files.open(disk.node, true).unwrap().handle;
    let context = RequestContext::default();
    assert_eq!(
        files.write(context, disk.node, handle, 8192, b"hello"),
        Ok(5)
    );
    let mut bytes = [0; 5];
    assert_eq!(
        files.read(context, disk.node, handle, 8192, &mut bytes),
        Ok(5)
    );
    assert_eq!(&bytes, b"hello");
    let data = files.seek(context, disk.node, handle, 0, SeekTarget::Data);
    assert_eq!(data, Ok(8192));
    assert_eq!(files.sync(context, disk.node, handle), Ok(()));
    files.release(disk.node, handle);
    let stored_bytes = pool.record().stored_bytes;
    assert_eq!(files.statistics().blocks, stored_bytes.div_ceil(4096));
    let read = files.read(context, NodeId::ROOT, Handle(99), 0, &mut bytes);
    assert_eq!(read, Err(Errno::BADF));
}
